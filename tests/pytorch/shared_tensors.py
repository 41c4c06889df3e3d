"""CUDA tensors shared between processes by torch.multiprocessing, both ways: small and large ones, views, a tensor that
outlives its sender's name for it. Values come from the host, since simulated kernels compute nothing.
"""

import torch
import torch.multiprocessing as mp


def show(who: str, tensor: torch.Tensor) -> str:
    return f"{who}: {tensor.device} {tuple(tensor.shape)} {tensor.flatten()[:4].tolist()} {tensor.flatten()[-1].item()}"


def work(index: int, inbox, outbox, results) -> None:
    lines = []
    for _ in range(3):
        tensor = inbox.get()
        lines.append(show(f"child {index}", tensor))
        flat = tensor.view(-1)
        flat[index:index + 1].copy_(torch.tensor([100.0 + index]))
        torch.cuda.synchronize()
        outbox.put("written")
        del tensor, flat
    mine = [torch.tensor([float(index)] * count).cuda() for count in (3, 1 << 20)]
    torch.cuda.synchronize()
    for tensor in mine:
        outbox.put(tensor)
    results.put((index, lines))
    inbox.get()  # the parent has read them


def main() -> None:
    mp.set_start_method("spawn")
    results = mp.Queue()
    boxes = [(mp.Queue(), mp.Queue()) for _ in range(2)]
    children = [mp.Process(target=work, args=(i, *boxes[i], results)) for i in range(2)]
    for child in children:
        child.start()
    small = torch.arange(8.0).cuda()
    large = torch.arange(float(3 << 20)).cuda()
    view = torch.arange(64.0).cuda()[16:48].view(4, 8)
    torch.cuda.synchronize()
    for tensor in (small, large, view):
        for inbox, outbox in boxes:
            inbox.put(tensor)
            outbox.get()
        print(show("parent", tensor))
    for index, (inbox, outbox) in enumerate(boxes):
        for _ in range(2):
            print(show(f"of child {index}", outbox.get()))
        inbox.put(None)
    for index, lines in sorted(results.get() for _ in children):
        print("\n".join(lines))
    for child in children:
        child.join()
    print("exit codes", [child.exitcode for child in children])


if __name__ == "__main__":
    main()
