"""A network in numpy: two layers, a policy over lines, and the boxes that the mover still gains; with its own Adam."""

import math
import os
from collections.abc import Sequence
from functools import cache

# Before numpy is imported: the matrices are small, and every core has a worker of its own.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import numpy.typing as npt

from ringrift_dots.rules import Position, count_lines, sides, symmetries

Array = npt.NDArray[np.float32]
Weights = dict[str, Array]
_HIDDEN = 64
_ROWS = 64  # one shape for every product of matrices, so that a position has the same value in any company
_BATCH, _RATE, _DECAY_1, _DECAY_2, _TINY = 256, 2e-3, 0.9, 0.999, 1e-8
_VALUE_SHARE = 4.0  # of the loss of the margin


def _shapes(size: int) -> dict[str, tuple[int, int]]:
    inputs, lines = 3 * count_lines(size) + 4 * size * size, count_lines(size)
    layers = {"w1": (inputs, _HIDDEN), "b1": (1, _HIDDEN), "w2": (_HIDDEN, _HIDDEN), "b2": (1, _HIDDEN)}
    return {**layers, "policy": (_HIDDEN, lines), "value": (_HIDDEN, 1)}


def new(size: int, seed: int) -> Weights:
    """Random weights; both heads begin at zero, so that a new network has no opinion."""
    random, weights = np.random.default_rng(seed), {}
    for name, shape in _shapes(size).items():
        scale = math.sqrt(2 / shape[0]) if name in ("w1", "w2") else 0.0
        weights[name] = (random.standard_normal(shape) * scale).astype(np.float32)
    return weights


def dump(weights: Weights) -> bytes:
    """The weights as bytes."""
    return b"".join(weight.tobytes() for weight in weights.values())


def load(size: int, data: bytes) -> Weights:
    """The weights of *dump*.  Raises ValueError if they are of another size or not finite."""
    numbers, place, weights = np.frombuffer(data, np.float32), 0, {}
    for name, shape in _shapes(size).items():
        weights[name] = numbers[place : place + math.prod(shape)].reshape(shape)
        place += math.prod(shape)
    if place != len(numbers) or not np.isfinite(numbers).all():
        raise ValueError("the weights are not those of a network for this board")
    return weights


def lines_of(positions: list[Position]) -> Array:
    """The lines drawn [positions, lines]."""
    bits = np.frombuffer(b"".join(map(_packed, positions)), np.uint8).reshape(len(positions), -1)
    return _unpacked(bits, count_lines(positions[0].size))


def _packed(position: Position) -> bytes:
    return position.drawn.to_bytes(-(-count_lines(position.size) // 8), "little")


def _unpacked(bits: npt.NDArray[np.uint8], count: int) -> Array:
    return np.unpackbits(bits, axis=1, count=count, bitorder="little").astype(np.float32)


def counts(drawn: Array, size: int) -> Array:
    """How many sides each box has [positions, boxes]."""
    sums: Array = drawn[:, np.array(sides(size))].sum(2)
    return sums


def _inputs(drawn: Array, size: int) -> Array:
    """Lines drawn; boxes with no to three sides; free lines that would be a third or a fourth side."""
    boxes = counts(drawn, size)
    marks = (((boxes == number).astype(np.float32) @ _borders(size) > 0) * (1 - drawn) for number in (2, 3))
    return np.concatenate([drawn, *(boxes == number for number in range(4)), *marks], axis=1, dtype=np.float32)


@cache
def _borders(size: int) -> Array:
    """A matrix [boxes, lines]: 1 where a line is a side of a box."""
    matrix = np.zeros((size * size, count_lines(size)), np.float32)
    for box, lines in enumerate(sides(size)):
        matrix[box, list(lines)] = 1
    return matrix


def evaluate(weights: Weights, drawn: Array, size: int) -> tuple[Array, Array]:
    """The logits [positions, lines] and the share of all boxes [positions] by which the mover still gains."""
    rows = -(-len(drawn) // _ROWS) * _ROWS
    padded = np.concatenate([drawn, np.zeros((rows - len(drawn), drawn.shape[1]), np.float32)])
    hidden = [_hidden(weights, part)[1] for part in _inputs(padded, size).reshape(rows // _ROWS, _ROWS, -1)]
    logits = np.concatenate([part @ weights["policy"] for part in hidden])
    margins = np.concatenate([part @ weights["value"] for part in hidden])
    return logits[: len(drawn)], margins[: len(drawn), 0]


def _hidden(weights: Weights, inputs: Array) -> tuple[Array, Array]:
    first = np.maximum(inputs @ weights["w1"] + weights["b1"], 0)
    return first, np.maximum(first @ weights["w2"] + weights["b2"], 0)


def row(position: Position, policy: bytes, scores: Sequence[float]) -> bytes:
    """A row to train on: the lines drawn, the improved policy and the boxes that the mover still gains."""
    now = position.scores()
    margin = int(scores[0] - scores[1] - now[0] + now[1]) * (1 - 2 * position.seat)
    return _packed(position) + policy + margin.to_bytes(1, "little", signed=True)


def train(weights: Weights, data: bytes, seed: int) -> tuple[Weights, dict[str, float]]:
    """The weights after going once through the rows of *data*, each under a random symmetry."""
    random, lines = np.random.default_rng(seed), weights["policy"].shape[1]
    size = math.isqrt(lines // 2)
    width = -(-lines // 8)
    rows = np.frombuffer(data, np.uint8).reshape(-1, width + lines + 1)
    turns, adam, losses = np.array(symmetries(size)), _Adam(weights), []
    order = random.permutation(len(rows))
    for first in range(0, len(rows), _BATCH):
        batch = rows[order[first : first + _BATCH]]
        turn = turns[random.integers(8)]
        policy = batch[:, width:-1][:, turn].astype(np.float32)
        margin = batch[:, -1].astype(np.int8).astype(np.float32) / np.float32(size * size)
        losses.append(adam.train(_unpacked(batch[:, :width], lines)[:, turn], size, policy, margin))
    policy_loss, margin_loss = (float(loss) for loss in np.mean(losses, axis=0))
    metrics = {"policy_loss": policy_loss, "value_loss": margin_loss, "steps": float(adam.step)}
    return adam.weights, {"loss": policy_loss + margin_loss, **metrics}


class _Adam:
    def __init__(self, weights: Weights) -> None:
        self.weights, self.step = {name: weight.copy() for name, weight in weights.items()}, 0
        self.mean = {name: np.zeros_like(weight) for name, weight in weights.items()}
        self.square = {name: np.zeros_like(weight) for name, weight in weights.items()}

    def train(self, drawn: Array, size: int, policy: Array, margin: Array) -> tuple[float, float]:
        """One step on a batch; the losses of the policy and of the margin."""
        weights, inputs, count = self.weights, _inputs(drawn, size), len(drawn)
        first, second = _hidden(weights, inputs)
        policy = policy / policy.sum(1, keepdims=True)
        logits = np.where(drawn > 0, -1e9, second @ weights["policy"])
        chances = np.exp(logits - logits.max(1, keepdims=True))
        chances /= chances.sum(1, keepdims=True)
        error = (second @ weights["value"])[:, 0] - margin
        d_logits, d_margin = (chances - policy) / count, (2 * _VALUE_SHARE / count * error)[:, None]
        d_second = (d_logits @ weights["policy"].T + d_margin @ weights["value"].T) * (second > 0)
        d_first = (d_second @ weights["w2"].T) * (first > 0)
        self._descend("w1", inputs.T @ d_first)
        self._descend("b1", d_first.sum(0, keepdims=True))
        self._descend("w2", first.T @ d_second)
        self._descend("b2", d_second.sum(0, keepdims=True))
        self._descend("policy", second.T @ d_logits)
        self._descend("value", second.T @ d_margin)
        self.step += 1
        return float(-(policy * np.log(chances + 1e-9)).sum(1).mean()), float((error**2).mean())

    def _descend(self, name: str, gradient: Array) -> None:
        self.mean[name] += (1 - _DECAY_1) * (gradient - self.mean[name])
        self.square[name] += (1 - _DECAY_2) * (gradient**2 - self.square[name])
        mean = self.mean[name] / (1 - _DECAY_1 ** (self.step + 1))
        square = self.square[name] / (1 - _DECAY_2 ** (self.step + 1))
        self.weights[name] -= _RATE * mean / (np.sqrt(square) + _TINY)
