"""Evaluate: a network as the search asks it, on the CPU, in whichever number format is fastest here.

Batches are filled up to a multiple of ROWS, because the libraries below choose other kernels for very small batches:
so what the network says of a position does not hang on which others are asked about with it.
"""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from ringrift.kernel.clock import SystemClock
from ringrift.reversi.net import Net
from ringrift.reversi.topology import VARIANTS, topology
from ringrift.reversi.tree import F32, I8, I16

ROWS = 32
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
TRIAL_SECONDS = 0.025  # for each dtype
_ONE_BFLOAT16 = 0x3F80
_TOLERANCE = 0.05
Forward = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Planes, channels last → logits [B, rows · cols] and value logits [B, P] from the mover on."""


class Evaluator:
    """The evaluator protocol of the search over *net*, which it copies, for up to *rows* positions at once."""

    def __init__(self, net: Net, *, rows: int, dtype: str = "float32") -> None:
        board, self.players = VARIANTS[net.variant]
        shape = topology(board)
        rows += -rows % ROWS
        self._place, grid = shape.place, shape.rows * shape.cols
        self._planes = np.zeros((rows, grid, self.players + 1), np.uint16 if dtype == "bfloat16" else np.float32)
        self._one = _ONE_BFLOAT16 if dtype == "bfloat16" else 1
        self._planes[:, shape.place, self.players] = self._one
        view = torch.from_numpy(self._planes)
        view = view.view(torch.bfloat16) if dtype == "bfloat16" else view
        self._input = view.view(rows, shape.rows, shape.cols, self.players + 1).permute(0, 3, 1, 2)
        self._logits = np.zeros((rows, shape.cells), np.float32)
        self._values = np.zeros((rows, self.players), np.float32)
        copy = Net(net.variant, net.channels, len(net.blocks))
        copy.load_state_dict(net.state_dict())
        self._forward = forward(copy.eval().to(DTYPES[dtype]).to(memory_format=torch.channels_last), self._input)

    @torch.inference_mode()
    def __call__(self, boards: I8, to_move: I8) -> tuple[F32, F32]:
        """Logits and values; both are overwritten by the next call."""
        count = len(boards)
        _encode(boards, to_move, self._place, self._one, self._planes)
        logits, values = self._forward(self._input[: count + -count % ROWS])
        _decode(
            logits[:count].float().numpy(), values[:count].float().numpy(), to_move, self._place, self._logits, self._values
        )
        return self._logits[:count], self._values[:count]


@numba.njit(cache=True)
def _encode(boards: I8, to_move: I8, place: I16, one: int, planes: Any) -> None:
    """The discs by seat from the mover on; what an earlier batch left further behind does no harm."""
    players = planes.shape[2] - 1
    for row in range(boards.shape[0]):
        for cell in range(place.shape[0]):
            at, disc = place[cell], boards[row, cell]
            for seat in range(players):
                planes[row, at, seat] = 0
            if disc > 0:
                planes[row, at, (disc - 1 - to_move[row] + players) % players] = one


@numba.njit(cache=True)
def _decode(grid: F32, relative: F32, to_move: I8, place: I16, logits: F32, values: F32) -> None:
    players = relative.shape[1]
    for row in range(grid.shape[0]):
        for cell in range(place.shape[0]):
            logits[row, cell] = grid[row, place[cell]]
        most = relative[row].max()
        whole = np.float32(0)
        for seat in range(players):
            whole += np.exp(relative[row, seat] - most)
        for seat in range(players):
            values[row, (seat + to_move[row]) % players] = np.exp(relative[row, seat] - most) / whole


def forward(net: Net, planes: Tensor) -> Forward:
    """The quickest way through *net* on this machine: with the steps after each convolution fused if torch can."""

    def plainly(x: Tensor) -> tuple[Tensor, Tensor]:
        x = functional.relu(net.stem(x))
        for block in net.blocks:
            x = block(x)
        value = functional.relu(net.planes(x)).flatten(1)
        return net.policy(x).flatten(1), net.value(functional.relu(net.hidden(value)))

    with torch.inference_mode():
        try:
            fused = _fused(net, planes)
            # These operators are torch's own business and may change: believed only if they agree.
            alike = all(
                torch.allclose(one, other, atol=_TOLERANCE)
                for one, other in zip(plainly(planes[:ROWS]), fused(planes[:ROWS]), strict=True)
            )
        except (RuntimeError, AttributeError, NotImplementedError, TypeError):
            return plainly
    return fused if alike else plainly


def _fused(net: Net, planes: Tensor) -> Forward:
    operators = torch.ops.mkldnn
    one, two = operators._convolution_pointwise, operators._convolution_pointwise.binary

    def packed(layer: nn.Module) -> tuple[Tensor, Tensor, list[int]]:
        assert isinstance(layer, nn.Conv2d)
        assert layer.bias is not None
        padding = [int(side) for side in layer.padding]
        size = [planes.shape[0], layer.in_channels, *planes.shape[2:]]
        weight = operators._reorder_convolution_weight(layer.weight.detach(), padding, [1, 1], [1, 1], 1, size)
        return weight, layer.bias.detach(), padding

    def conv(x: Tensor, layer: tuple[Tensor, Tensor, list[int]], after: str) -> Any:
        return one(x, *layer, [1, 1], [1, 1], 1, after, [], "")

    stem, policy, value_planes = packed(net.stem), packed(net.policy), packed(net.planes)
    blocks = [(packed(block.first), packed(block.second)) for block in net.blocks]  # type: ignore[arg-type]

    def run(x: Tensor) -> tuple[Tensor, Tensor]:
        x = conv(x, stem, "relu")
        for first, second in blocks:
            x = two(conv(x, first, "relu"), x, *second, [1, 1], [1, 1], 1, "add", None, "relu", [], "")
        value = conv(x, value_planes, "relu").flatten(1)
        return conv(x, policy, "none").flatten(1), net.value(functional.relu(net.hidden(value)))

    return run


def quickest(variant: str, *, rows: int, channels: int, blocks: int) -> str:
    """The dtype in which this machine evaluates fastest: a trial of 25 ms each."""
    clock = SystemClock()
    rates: dict[str, float] = {}
    boards = np.zeros((rows, topology(VARIANTS[variant][0]).cells), np.int8)
    for dtype in DTYPES:
        evaluate = Evaluator(Net(variant, channels, blocks), rows=rows, dtype=dtype)
        evaluate(boards, np.zeros(rows, np.int8))
        began, rounds = clock.tick(), 0
        while clock.tick() - began < TRIAL_SECONDS:
            evaluate(boards, np.zeros(rows, np.int8))
            rounds += 1
        rates[dtype] = rounds / (clock.tick() - began)
    return max(rates, key=lambda dtype: rates[dtype])
