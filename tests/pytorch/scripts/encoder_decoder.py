"""Trains a small T5 on pairs of sentences whose lengths differ from batch to batch; each batch is padded to its own
longest sentence."""

import random

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import T5Config, T5ForConditionalGeneration

BATCH = 8
STEPS = 5
VOCABULARY = 8000
PADDING = 0


def sentence(longest):
    return torch.randint(2, VOCABULARY, (random.randint(longest // 4, longest),))


def batches(count):
    for _ in range(count):
        sources = pad_sequence([sentence(160) for _ in range(BATCH)], batch_first=True, padding_value=PADDING)
        targets = pad_sequence([sentence(96) for _ in range(BATCH)], batch_first=True, padding_value=-100)
        yield {"input_ids": sources, "attention_mask": (sources != PADDING).long(), "labels": targets}


def main():
    random.seed(0)
    torch.manual_seed(0)
    config = T5Config(vocab_size=VOCABULARY, d_model=256, d_kv=32, d_ff=1024, num_layers=3, num_heads=8,
                      decoder_start_token_id=PADDING)
    model = T5ForConditionalGeneration(config).to("cuda")
    optimizer = torch.optim.Adafactor(model.parameters(), lr=1e-3)

    losses = []
    for step, batch in enumerate(batches(STEPS)):
        batch = {name: tensor.pin_memory().to("cuda", non_blocking=True) for name, tensor in batch.items()}
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        print(f"step {step}: {tuple(batch['input_ids'].shape)} -> {tuple(batch['labels'].shape)} loss {losses[-1]:.4f}")


if __name__ == "__main__":
    main()
