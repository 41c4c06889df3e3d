"""Trains a small vision transformer with gradient accumulation and a cosine schedule."""

import torch
import torch.nn.functional as F
from torchvision.models.vision_transformer import VisionTransformer

MICRO_BATCH = 8
ACCUMULATE = 4
STEPS = 3


def main():
    torch.manual_seed(0)
    device = "cuda"
    model = VisionTransformer(image_size=128, patch_size=16, num_layers=6, num_heads=6, hidden_dim=384, mlp_dim=1536,
                              num_classes=100).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95))
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)

    for step in range(STEPS):
        total = torch.zeros((), device=device)
        for _ in range(ACCUMULATE):
            images = torch.randn(MICRO_BATCH, 3, 128, 128, device=device)
            labels = torch.randint(0, 100, (MICRO_BATCH,), device=device)
            loss = F.cross_entropy(model(images), labels) / ACCUMULATE
            loss.backward()
            total += loss.detach()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        scheduler.step()
        print(f"step {step}: loss {total.item():.4f}, learning rate {scheduler.get_last_lr()[0]:.2e}")


if __name__ == "__main__":
    main()
