"""Trains a small T5 on pairs of sentences, bucketed: all of a batch have the same length, which differs from batch to
batch."""

import random

import torch
from transformers import T5Config, T5ForConditionalGeneration

BATCH = 8
STEPS = 5
VOCABULARY = 8000
PADDING = 0


def batches(count):
    for _ in range(count):
        source, target = random.randint(40, 160), random.randint(24, 96)
        yield {"input_ids": torch.randint(2, VOCABULARY, (BATCH, source)),
               "labels": torch.randint(2, VOCABULARY, (BATCH, target))}


def main():
    random.seed(0)
    torch.manual_seed(0)
    config = T5Config(vocab_size=VOCABULARY, d_model=256, d_kv=32, d_ff=1024, num_layers=3, num_heads=8,
                      decoder_start_token_id=PADDING)
    model = T5ForConditionalGeneration(config).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    losses = []
    for step, batch in enumerate(batches(STEPS)):
        batch = {name: tensor.pin_memory().to("cuda", non_blocking=True) for name, tensor in batch.items()}
        loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        print(f"step {step}: {tuple(batch['input_ids'].shape)} -> {tuple(batch['labels'].shape)} loss {losses[-1]:.4f}")


if __name__ == "__main__":
    main()
