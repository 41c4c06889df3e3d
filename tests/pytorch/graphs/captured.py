"""CUDA graphs by hand: a network, a copy that crosses streams, and tensors made and freed inside the capture. Prints what the
host sees; copies move real bytes on the simulated GPU too."""

import torch

torch.manual_seed(0)
source = torch.ones(1 << 16, device="cuda")
net = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 16)).cuda()
x = torch.zeros(64, 256, device="cuda")
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        net(x)
torch.cuda.current_stream().wait_stream(side)

graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    out = net(x)
    kept = source.clone()
    fork = torch.cuda.current_stream()
    side.wait_stream(fork)
    with torch.cuda.stream(side):
        crossed = torch.empty_like(source)
        crossed.copy_(kept)
        for _ in range(3):
            passing = crossed.clone()
            crossed.copy_(passing)
        del passing
    fork.wait_stream(side)

seen = []
for i in range(5):
    source.copy_(torch.full((1 << 16,), float(i)))
    between = [torch.full((1 << 14,), 77.0).cuda() for _ in range(4)]  # nobody else's memory
    graph.replay()
    torch.cuda.synchronize()
    seen.append((kept.cpu().sum().item(), crossed.cpu().max().item(), sum(b.cpu().sum().item() for b in between)))
    del between
print(seen)
print(tuple(out.shape))
assert seen == [(65536.0 * i, float(i), 4 * 77.0 * (1 << 14)) for i in range(5)], seen
try:
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        torch.cuda.synchronize()
except RuntimeError as error:
    print("refused:", "captur" in str(error))
torch.cuda.synchronize()
del graph, kept, crossed, out
torch.cuda.empty_cache()
print("done")
