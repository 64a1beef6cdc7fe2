"""A perceptron in numpy with two hidden layers, a policy and a value; Adam with weight decay trains it."""

import os
from random import Random

# Before numpy is imported: small matrices, on a machine whose other cores have work of their own.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import numpy.typing as npt

from ringrift_breakthrough.rules import ACTIONS

Array = npt.NDArray[np.float32]
Bits = npt.NDArray[np.uint64]
Weights = list[Array]
_Rows = npt.NDArray[np.void]
TOP = 8  # actions of a position that a row names, each with its share of the policy
_SHAPES = ((128, 160), (160,), (160, 80), (80,), (80, ACTIONS), (ACTIONS,), (80, 1), (1,))
_SIZES = [int(np.prod(shape)) for shape in _SHAPES]
_ROW = np.dtype(
    [("own", "<u8"), ("other", "<u8"), ("won", "u1"), ("actions", "u1", TOP), ("shares", "u1", TOP), ("guess", "i1")]
)
_BATCH, _STEPS_MAX, _REUSE, _RATE = 256, 2000, 4, 1.5e-3
_GUESS = 0.5  # of the target of the value: the rest is the result of the game
_MIRROR = np.array([3 * (s // 8 * 8 + 7 - s % 8) + 2 - way for s in range(64) for way in range(3)])


def new(random: Random) -> Weights:
    """Random weights; both heads begin small."""
    rng = np.random.default_rng(random.getrandbits(64))
    scales = [np.sqrt(2 / shape[0]) if len(shape) == 2 else 0.0 for shape in _SHAPES]
    scales[4] = scales[6] = 0.05
    return [(rng.standard_normal(shape) * s).astype(np.float32) for shape, s in zip(_SHAPES, scales, strict=True)]


def dump(weights: Weights) -> bytes:
    """The weights as bytes."""
    return b"".join(part.astype("<f4").tobytes() for part in weights)


def load(data: bytes) -> Weights:
    """The weights of *dump*.  Raises ValueError if they are too few, too many or not finite."""
    if len(data) != 4 * sum(_SIZES):
        raise ValueError(f"a model has {sum(_SIZES)} weights")
    flat = np.frombuffer(data, "<f4").astype(np.float32)
    if not np.isfinite(flat).all():
        raise ValueError("a weight is not finite")
    parts = np.split(flat, np.cumsum(_SIZES)[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, _SHAPES, strict=True)]


def value(weights: Weights, own: Bits, other: Bits) -> Array:
    """How good each position is for its player to move, from -1 to 1."""
    values: Array = np.tanh(_hidden(weights, _features(own, other))[1] @ weights[6] + weights[7])[:, 0]
    return values


def policy(weights: Weights, own: Bits, other: Bits) -> Array:
    """The logits [positions, actions]."""
    logits: Array = _hidden(weights, _features(own, other))[1] @ weights[4] + weights[5]
    return logits


def _features(own: Bits, other: Bits) -> Array:
    both = np.stack([own, other], 1).astype("<u8")
    return np.unpackbits(both.view(np.uint8), axis=1, bitorder="little").astype(np.float32)


def _hidden(weights: Weights, x: Array) -> tuple[Array, Array]:
    lower = np.maximum(x @ weights[0] + weights[1], 0)
    return lower, np.maximum(lower @ weights[2] + weights[3], 0)


def _heads(weights: Weights, upper: Array) -> tuple[Array, Array]:
    """The logarithm of the policy, and the value, of the upper hidden layer."""
    logits = upper @ weights[4] + weights[5]
    logits -= logits.max(1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(1, keepdims=True)), np.tanh(upper @ weights[6] + weights[7])


def _losses(logs: Array, guess: Array, target: Array, won: Array) -> tuple[float, float]:
    return float(-(target * logs).sum(1).mean()), float(((guess - won) ** 2).mean())


def _batch(rows: _Rows, is_mirrored: npt.NDArray[np.bool_]) -> tuple[Array, Array, Array]:
    """Inputs and the targets of policy and value; the board is mirrored where *is_mirrored*."""
    x = _features(rows["own"], rows["other"])
    target = np.zeros((len(rows), ACTIONS), np.float32)
    np.add.at(target, (np.arange(len(rows))[:, None], rows["actions"]), rows["shares"].astype(np.float32))
    target /= np.maximum(target.sum(1, keepdims=True), 1)
    x[is_mirrored] = x[is_mirrored].reshape(-1, 16, 8)[:, :, ::-1].reshape(-1, 128)
    target[is_mirrored] = target[is_mirrored][:, _MIRROR]
    result = rows["won"].astype(np.float32) * 2 - 1
    guess = rows["guess"].astype(np.float32) / np.float32(100)
    return x, target, (result + _GUESS * (guess - result))[:, None]


def _gradients(weights: Weights, x: Array, target: Array, won: Array) -> tuple[Weights, tuple[float, float]]:
    """The gradients of a batch in the order of the weights, and its losses."""
    lower, upper = _hidden(weights, x)
    logs, guess = _heads(weights, upper)
    to_logits = (np.exp(logs) * target.sum(1, keepdims=True) - target) / len(x)
    to_guess = 2 * (guess - won) * (1 - guess**2) / len(x)
    to_upper = (to_logits @ weights[4].T + to_guess @ weights[6].T) * (upper > 0)
    to_lower = (to_upper @ weights[2].T) * (lower > 0)
    layers = ((x, to_lower), (lower, to_upper), (upper, to_logits), (upper, to_guess))
    gradients = [part for inputs, errors in layers for part in (inputs.T @ errors, errors.sum(0))]
    return gradients, _losses(logs, guess, target, won)


def train(weights: Weights, data: bytes, random: Random) -> tuple[Weights, dict[str, float]]:
    """The weights after some steps on rows of *data*, and the losses, also of the last rows, which no step uses."""
    rng = np.random.default_rng(random.getrandbits(64))
    rows = np.frombuffer(data, _ROW)
    cut = max(1, len(rows) - min(len(rows) // 20, 2000))
    rows, rest = rows[:cut], rows[cut:]
    weights = [part.copy() for part in weights]
    means, squares = [np.zeros_like(part) for part in weights], [np.zeros_like(part) for part in weights]
    steps = min(_STEPS_MAX, max(1, _REUSE * len(rows) // _BATCH))
    sums = np.zeros(2)
    for step in range(1, steps + 1):
        some = rows[rng.integers(0, len(rows), min(_BATCH, len(rows)))]
        gradients, losses = _gradients(weights, *_batch(some, rng.random(len(some)) < 0.5))
        sums += losses
        rate = np.float32(_RATE * min(1.0, 5 * (1 - (step - 1) / steps)))
        for part, gradient, mean, square in zip(weights, gradients, means, squares, strict=True):
            mean += 0.1 * (gradient - mean)
            square += 0.01 * (gradient * gradient - square)
            part -= rate * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-7)
            if part.ndim == 2:
                part *= 1 - rate * np.float32(1e-2)
    metrics = {"policy_loss": sums[0] / steps, "value_loss": sums[1] / steps, "steps": steps, "batch": _BATCH}
    if len(rest):
        x, target, won = _batch(rest, np.zeros(len(rest), bool))
        losses = _losses(*_heads(weights, _hidden(weights, x)[1]), target, won)
        metrics |= {"held_out_policy_loss": losses[0], "held_out_value_loss": losses[1]}
    return weights, {name: float(number) for name, number in metrics.items()}
