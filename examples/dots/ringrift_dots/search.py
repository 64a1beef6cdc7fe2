"""A small Gumbel search: the best lines by the policy are tried, and the network judges what follows each of them."""

from collections.abc import Sequence
from random import Random

import numpy as np
import numpy.typing as npt

from ringrift_dots.network import Weights, counts, evaluate, lines_of
from ringrift_dots.rules import Position

_SCALE = 16.0  # logits that all boxes together are worth


def search(
    weights: Weights, positions: Sequence[Position], sims: int, randoms: Sequence[Random], explore: bool
) -> list[tuple[int, bytes]]:
    """Try *sims* lines of every position; the line and the improved policy, a byte for each line."""
    size, drawn = positions[0].size, lines_of(list(positions))
    logits, expected = evaluate(weights, drawn, size)
    logits = np.where(drawn > 0, -np.inf, logits)
    logits -= logits.max(1, keepdims=True)
    noise = _gumbel(randoms, drawn.shape[1]) if explore else np.zeros(drawn.shape)
    tried = np.argsort(-(logits + noise), axis=1, kind="stable")[:, :sims]
    rows, places = np.nonzero(np.take_along_axis(drawn, tried, 1) == 0)
    lines = tried[rows, places]
    after = drawn[rows]
    after[np.arange(len(rows)), lines] = 1
    gained = (counts(after, size) == 4).sum(1) - (counts(drawn, size) == 4).sum(1)[rows]
    rest = np.where(after.all(1), 0, evaluate(weights, after, size)[1])
    values = np.repeat(expected[:, None], drawn.shape[1], 1)  # a line that was not tried is as good as expected
    values[rows, lines] = gained / size**2 + np.where(gained > 0, rest, -rest)  # who closes a box moves again
    improved = logits + _SCALE * values
    scores = np.full(drawn.shape, -np.inf)
    scores[rows, lines] = (improved + noise)[rows, lines]
    policy = np.exp(improved - improved.max(1, keepdims=True))
    policy = np.rint(255 * policy / policy.max(1, keepdims=True)).astype(np.uint8)
    return [(int(line), target.tobytes()) for line, target in zip(scores.argmax(1), policy, strict=True)]


def _gumbel(randoms: Sequence[Random], count: int) -> npt.NDArray[np.float64]:
    uniform = np.array([[random.random() for _ in range(count)] for random in randoms])
    noise: npt.NDArray[np.float64] = -np.log(-np.log(np.clip(uniform, 1e-12, 1 - 1e-12)))
    return noise
