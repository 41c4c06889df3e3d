"""Pretrains a 4-layer GPT-2 on random tokens under bf16 autocast, with gradient clipping and a warm-up."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

BATCH = 4
SEQUENCE = 512
STEPS = 3


def main():
    torch.manual_seed(0)
    config = GPT2Config(n_layer=4, n_positions=SEQUENCE)
    model = GPT2LMHeadModel(config).cuda()
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 10))

    for step in range(STEPS):
        tokens = torch.randint(0, config.vocab_size, (BATCH, SEQUENCE), device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        print(f"step {step}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
