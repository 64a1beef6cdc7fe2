"""The network as the torch search asks it: on its device, in its number format, with the channels last."""

import torch
from torch import Tensor
from torch.nn import functional

from ringrift.reversi.net import Net
from ringrift.reversi.torch_search import Evaluate

PLANES_STEP = 8  # tensor cores take channels by eight; planes of nothing fill the rest


def evaluator(net: Net, *, device: torch.device | str, dtype: torch.dtype) -> Evaluate:
    """The evaluator of *net*, which it copies, so that it can be traced as one graph together with what surrounds it."""
    copy = Net(net.variant, net.channels, len(net.blocks))
    copy.load_state_dict(net.state_dict())
    copy = copy.to(device=device, dtype=dtype, memory_format=torch.channels_last).eval().requires_grad_(False)
    players, grid = copy.players, copy.rows * copy.cols
    planes = players + 1 + -(players + 1) % PLANES_STEP
    weight = functional.pad(copy.stem.weight, (0, 0, 0, 0, 0, planes - players - 1))
    copy.stem.weight = torch.nn.Parameter(weight.contiguous(memory_format=torch.channels_last), requires_grad=False)
    seats = torch.arange(players, device=device)
    constant = torch.zeros(grid, planes - players, dtype=dtype, device=device)
    constant[:, 0] = copy.mask.view(-1)
    cell_of = torch.zeros(grid, dtype=torch.int64, device=device)
    cell_of[copy.place] = torch.arange(copy.cells, device=device)
    is_cell = copy.mask.view(-1) > 0

    def evaluate(boards: Tensor, to_move: Tensor) -> tuple[Tensor, Tensor]:
        count = len(boards)
        mover = to_move.long()[:, None]
        onto = boards if copy.cells == grid else torch.where(is_cell, boards[:, cell_of], 0)
        discs = onto[..., None] == ((mover + seats) % players + 1)[:, None]
        seen = torch.cat((discs.to(dtype), constant.expand(count, -1, -1)), 2)
        logits, relative = copy(seen.view(count, copy.rows, copy.cols, planes).permute(0, 3, 1, 2))
        return logits.float(), relative.float().softmax(1).gather(1, (seats - mover) % players)

    return evaluate
