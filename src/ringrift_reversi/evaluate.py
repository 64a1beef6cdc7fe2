"""Evaluate: the network as the search calls it, on the CPU, in the number type that is fastest here.

Batches are padded to a multiple of 32, because the libraries below choose other kernels for very small batches:
so the evaluation of a position does not depend on the others in its batch.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ringrift.workload.api import Scalar
from ringrift.workload.clock import SystemClock
from ringrift_reversi.net import BLOCKS, CHANNELS, Net, channels_last, new_net
from ringrift_reversi.rng import opening
from ringrift_reversi.topology import VARIANTS, start, topology
from ringrift_reversi.tree import F32, I8, I16

_ROWS = 32
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
_TRIAL_SECONDS = 0.025  # for each dtype
_ONE_BFLOAT16 = 0x3F80
_TOLERANCE = 0.05
_SUM_TOLERANCE = 1e-3
_GOLDEN_ROWS, _GOLDEN_CELLS, _GOLDEN_TOLERANCE = slice(4, 32, 8), 8, 0.01
_TRIAL_ROWS = 256
_Forward = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Planes, channels last → logits [B, rows · cols] and value logits [B, P], counted from the mover."""


class Evaluator:
    """Evaluates up to *rows* positions at once for the search, with a copy of *net*."""

    def __init__(self, net: Net, *, rows: int, dtype: str = "float32") -> None:
        board, self.players = VARIANTS[net.variant]
        shape = topology(board)
        rows += -rows % _ROWS
        self._place, grid = shape.place, shape.rows * shape.cols
        self._planes = np.zeros((rows, grid, self.players + 1), np.uint16 if dtype == "bfloat16" else np.float32)
        self._mark = _ONE_BFLOAT16 if dtype == "bfloat16" else 1
        self._planes[:, shape.place, self.players] = self._mark
        view = torch.from_numpy(self._planes)
        view = view.view(torch.bfloat16) if dtype == "bfloat16" else view
        self._input = view.view(rows, shape.rows, shape.cols, self.players + 1).permute(0, 3, 1, 2)
        self._logits = np.zeros((rows, shape.cells), np.float32)
        self._values = np.zeros((rows, self.players), np.float32)
        copy = Net(net.variant, net.channels, len(net.blocks))
        copy.load_state_dict(net.state_dict())
        copy = channels_last(copy.eval().to(DTYPES[dtype]))
        self._forward = _forward(copy, self._input)

    @torch.inference_mode()
    def network(self, count: int) -> tuple[Tensor, Tensor]:
        """Run the network alone on the first *count* rows of the last batch, padded."""
        return self._forward(self._input[: count + -count % _ROWS])

    @torch.inference_mode()
    def __call__(self, boards: I8, to_move: I8) -> tuple[F32, F32]:
        """Logits and values; both are overwritten by the next call."""
        count = len(boards)
        _encode(boards, to_move, self._place, self._mark, self._planes)
        logits, values = self.network(count)
        grid, relative = logits[:count].float().numpy(), values[:count].float().numpy()
        _decode(grid, relative, to_move, self._place, self._logits, self._values)
        return self._logits[:count], self._values[:count]


@numba.njit(cache=True)
def _encode(boards: I8, to_move: I8, place: I16, mark: int, planes: Any) -> None:
    """Write the discs by seat, counted from the mover; rows left over from an earlier batch do no harm."""
    players = planes.shape[2] - 1
    for row in range(boards.shape[0]):
        for cell in range(place.shape[0]):
            at, seat = place[cell], boards[row, cell] - 1 - to_move[row]
            for plane in range(players):
                planes[row, at, plane] = 0
            if boards[row, cell] > 0:
                planes[row, at, seat if seat >= 0 else seat + players] = mark


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


def _forward(net: Net, planes: Tensor) -> _Forward:
    """The fastest forward pass of *net* on this machine: with the steps after each convolution fused if torch can."""

    def plain(x: Tensor) -> tuple[Tensor, Tensor]:
        x = functional.relu(net.stem(x))
        for block in net.blocks:
            x = block(x)
        value = functional.relu(net.planes(x)).flatten(1)
        return net.policy(x).flatten(1), net.value(functional.relu(net.hidden(value)))

    with torch.inference_mode():
        try:
            fused = _fused(net, planes)
            # These operators are internal to torch and may change: used only if the results agree.
            is_equal = all(
                torch.allclose(expected, actual, atol=_TOLERANCE)
                for expected, actual in zip(plain(planes[:_ROWS]), fused(planes[:_ROWS]), strict=True)
            )
        except (RuntimeError, AttributeError, NotImplementedError, TypeError):
            return plain
    return fused if is_equal else plain


def _fused(net: Net, planes: Tensor) -> _Forward:
    operators = torch.ops.mkldnn
    mark, two = operators._convolution_pointwise, operators._convolution_pointwise.binary

    def packed(layer: nn.Module) -> tuple[Tensor, Tensor, list[int]]:
        assert isinstance(layer, nn.Conv2d)
        assert layer.bias is not None
        padding = [int(side) for side in layer.padding]
        size = [planes.shape[0], layer.in_channels, *planes.shape[2:]]
        weight = operators._reorder_convolution_weight(layer.weight.detach(), padding, [1, 1], [1, 1], 1, size)
        return weight, layer.bias.detach(), padding

    def conv(x: Tensor, layer: tuple[Tensor, Tensor, list[int]], after: str) -> Any:
        return mark(x, *layer, [1, 1], [1, 1], 1, after, [], "")

    stem, policy, value_planes = packed(net.stem), packed(net.policy), packed(net.planes)
    blocks = [(packed(block.get_submodule("first")), packed(block.get_submodule("second"))) for block in net.blocks]

    def run(x: Tensor) -> tuple[Tensor, Tensor]:
        x = conv(x, stem, "relu")
        for first, second in blocks:
            x = two(conv(x, first, "relu"), x, *second, [1, 1], [1, 1], 1, "add", None, "relu", [], "")
        value = conv(x, value_planes, "relu").flatten(1)
        return conv(x, policy, "none").flatten(1), net.value(functional.relu(net.hidden(value)))

    return run


@cache
def fastest_dtype(variant: str, *, channels: int = CHANNELS, blocks: int = BLOCKS) -> str:
    """The dtype in which this machine evaluates fastest: measured once per process, 25 ms each."""
    clock = SystemClock()
    rates: dict[str, float] = {}
    boards = np.zeros((_TRIAL_ROWS, topology(VARIANTS[variant][0]).cells), np.int8)
    movers = np.zeros(_TRIAL_ROWS, np.int8)
    for dtype in DTYPES:
        evaluate = Evaluator(new_net(variant, 0, channels=channels, blocks=blocks), rows=_TRIAL_ROWS, dtype=dtype)
        evaluate(boards, movers)
        began, rounds = clock.tick(), 0
        while clock.tick() - began < _TRIAL_SECONDS:
            evaluate(boards, movers)
            rounds += 1
        rates[dtype] = rounds / (clock.tick() - began)
    return max(rates, key=lambda dtype: rates[dtype])


def measured_params() -> dict[str, Scalar]:
    """The params that a run measures once and passes to all of its jobs."""
    torch.set_num_threads(1)
    return {"dtype": fastest_dtype("square8_2p"), "threads": 1}


def find_defect(net: Net) -> str:
    """The defect in the output of *net* for a few positions; "" if there is none.

    Shares of first place are finite and sum to 1, and follow the players when every player moves one seat on.
    """
    players = VARIANTS[net.variant][1]
    boards, movers = _some_positions(net.variant)
    with torch.inference_mode():
        logits, values = net.eval().evaluate(torch.from_numpy(boards), torch.from_numpy(movers))
        turned, after = np.where(boards > 0, boards % players + 1, 0).astype(np.int8), (movers + 1) % players
        others, moved = net.evaluate(torch.from_numpy(turned), torch.from_numpy(after))
    if not bool(torch.isfinite(logits).all() and torch.isfinite(values).all()):
        return "its output is not finite"
    if not torch.allclose(values.sum(1), torch.ones(len(values)), atol=_SUM_TOLERANCE):
        return "its values do not sum to 1"
    if not torch.allclose(logits, others, atol=_SUM_TOLERANCE, rtol=_SUM_TOLERANCE) or not torch.allclose(
        values.roll(1, 1), moved, atol=_SUM_TOLERANCE
    ):
        return "its output depends on the numbers of the seats"
    return ""


def golden(net: Net) -> str:
    """The output of *net* for a few positions, as its file stores it: every reader must compute the same."""
    return " ".join(f"{number:.4f}" for number in _forward_pass(net))


def find_drift(net: Net, golden: str) -> str:
    """How the output of *net* differs from the *golden* one of its file; "" if it does not, or if *golden* is "".

    A small difference is allowed, because machines round differently.
    """
    actual = _forward_pass(net)
    try:
        expected = [float(number) for number in golden.split()]
    except ValueError:
        return "its golden output is not a list of numbers"
    if expected and len(expected) != len(actual):
        return f"its golden output has {len(expected)} numbers, not {len(actual)}"
    pairs = zip(expected, actual, strict=False)
    most = max((abs(number - other) / (1.0 + abs(number)) for number, other in pairs), default=0.0)
    return "" if most <= _GOLDEN_TOLERANCE else f"its output is {most:.3g} off from its golden output"


def _forward_pass(net: Net) -> list[float]:
    boards, movers = (torch.from_numpy(array) for array in _some_positions(net.variant))
    with torch.inference_mode():
        logits, values = net.eval().evaluate(boards[_GOLDEN_ROWS], movers[_GOLDEN_ROWS])
    return [*logits[:, :_GOLDEN_CELLS].flatten().tolist(), *values.flatten().tolist()]


def _some_positions(variant: str) -> tuple[I8, I8]:
    board, players = VARIANTS[variant]
    shape = topology(board)
    boards, movers = np.zeros((_ROWS, shape.cells), np.int8), np.zeros(_ROWS, np.int8)
    boards[:] = start(board, players)
    for row in range(_ROWS):
        mover = opening(boards[row], row, players, shape.rays, row, np.zeros(shape.cells, np.uint16))
        movers[row] = max(mover, 0)
    return boards, movers
