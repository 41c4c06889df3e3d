"""Trains torchvision's ResNet-50 with SGD, momentum and weight decay; images come through a data loader."""

import torch
import torchvision
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BATCH = 8
STEPS = 3


def main():
    torch.manual_seed(0)
    device = torch.device("cuda:0")
    data = TensorDataset(torch.randn(BATCH * STEPS, 3, 224, 224), torch.randint(0, 1000, (BATCH * STEPS,)))
    loader = DataLoader(data, batch_size=BATCH, shuffle=True)
    model = torchvision.models.resnet50(weights=None).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    loss_function = nn.CrossEntropyLoss(label_smoothing=0.1)

    running = 0.0
    for images, labels in loader:
        images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        loss = loss_function(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running += loss.item()
    print(f"mean loss {running / STEPS:.4f}")

    model.eval()
    with torch.no_grad():
        prediction = model(torch.randn(BATCH, 3, 224, 224, device=device)).argmax(dim=1)
    print("predictions", prediction.tolist())


if __name__ == "__main__":
    main()
