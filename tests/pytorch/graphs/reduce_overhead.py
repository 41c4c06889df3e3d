"""torch.compile(mode="reduce-overhead"): graphs that the compiler captures and replays."""

import torch

torch.manual_seed(0)


@torch.compile(mode="reduce-overhead")
def step(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.relu(a @ b).sum(dim=1)


a, b = torch.randn(128, 128).cuda(), torch.randn(128, 128).cuda()
for _ in range(6):
    result = step(a, b)
    torch.cuda.synchronize()
print(tuple(result.shape))
from torch._inductor.cudagraph_trees import get_manager  # noqa: E402

manager = get_manager(0, create_if_none_exists=False)
print("captured", manager is not None and manager.new_graph_id().id > 0)
