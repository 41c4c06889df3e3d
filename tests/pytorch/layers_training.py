"""One step of layers that PyTorch gives to cuDNN where there is one: convolution, attention, LSTM."""

import torch
from torch import nn


def main():
    device = torch.device("cuda")
    convolution = nn.Conv2d(3, 8, 3).to(device)
    attention = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).to(device, torch.bfloat16)
    recurrent = nn.LSTM(32, 32).to(device)
    parameters = [*convolution.parameters(), *attention.parameters(), *recurrent.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    convolution(torch.randn(2, 3, 32, 32, device=device)).sum().backward()
    attention(torch.randn(2, 16, 64, device=device, dtype=torch.bfloat16)).sum().backward()
    recurrent(torch.randn(5, 2, 32, device=device))[0].sum().backward()
    optimizer.step()
    torch.cuda.synchronize()
    print(f"cudnn {torch.backends.cudnn.enabled}, {len(parameters)} parameters")


if __name__ == "__main__":
    main()
