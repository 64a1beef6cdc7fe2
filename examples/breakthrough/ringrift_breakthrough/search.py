"""Two plies for all games of a batch: every move by the value of its position, the best few by the best reply."""

from collections.abc import Sequence
from math import log
from random import Random

import numpy as np
import numpy.typing as npt

from ringrift_breakthrough.network import TOP, Array, Bits, Weights, policy, value
from ringrift_breakthrough.rules import FILE_A, FILE_H, Board

_Numbers = npt.NDArray[np.intp]
_A, _H, _ROW_1, _u = np.uint64(FILE_A), np.uint64(FILE_H), np.uint64(0xFF), np.uint64
_SCALE, _NOISE = 16.0, 0.4  # logits that a sure win is worth over a draw; how wild self-play is
_NOT_CHOSEN = 3  # logits that a move loses in the target because only its own position was judged


def search(
    weights: Weights, boards: Sequence[Board], sims: int, randoms: Sequence[Random], explore: bool
) -> list[tuple[int, bytes]]:
    """Judge a quarter of *sims* moves of every board by the replies; the best one, and what training needs."""
    own = np.array([board.own for board in boards], np.uint64)
    other = np.array([board.other for board in boards], np.uint64)
    number, action, own_1, other_1 = _expand(own, other)
    logits = policy(weights, own, other)[number, action]
    value_1, is_over = _values(weights, own_1, other_1)
    good = -value_1
    noise = np.zeros(len(number), np.float32)
    if explore:
        noise[:] = [-_NOISE * log(-log(1 - randoms[n].random() * (1 - 1e-12) or 1e-12)) for n in number.tolist()]
    order = np.lexsort((-(noise + logits + _SCALE * good), number))
    starts = np.searchsorted(number, np.arange(len(boards) + 1))
    chosen = order[np.arange(len(number)) - starts[number] < max(2, sims // 4)]
    deep = chosen[~is_over[chosen]]
    if len(deep):
        parent, _, own_2, other_2 = _expand(own_1[deep], other_1[deep])
        best = np.full(len(deep), np.float32(-1))
        np.maximum.at(best, parent, -_values(weights, own_2, other_2)[0])
        good[deep] = 0.25 * good[deep] - 0.75 * best
        good[deep[best >= 1]] = -1
    score = logits + _SCALE * good
    is_chosen = np.zeros(len(number), bool)
    is_chosen[chosen] = True
    results = []
    for n in range(len(boards)):
        part = slice(starts[n], starts[n + 1])
        pick = np.where(is_chosen[part], score[part] + noise[part], -np.inf).argmax()
        guess = np.int8(np.round(100 * good[part][is_chosen[part]].max()))
        ranked = np.where(is_chosen[part], score[part], score[part] - _NOT_CHOSEN)
        results.append((int(action[part][pick]), _target(action[part], ranked) + guess.tobytes()))
    return results


def _target(actions: _Numbers, ranked: Array) -> bytes:
    """The best actions and their shares of the policy, a byte for each."""
    top = np.argsort(-ranked, kind="stable")[:TOP]
    share = np.exp(ranked[top] - ranked[top[0]])
    record = np.zeros((2, TOP), np.uint8)
    record[0, : len(top)] = actions[top]
    record[1, : len(top)] = np.round(200 * share / share.sum())
    return record.tobytes()


def _expand(own: Bits, other: Bits) -> tuple[_Numbers, _Numbers, Bits, Bits]:
    """Number of the position, action, and the position after it, for every legal action of every position."""
    sources = np.stack(
        [own & ~_A & ~(own >> _u(7)), own & ~((own | other) >> _u(8)), own & ~_H & ~(own >> _u(9))], axis=1
    ).astype("<u8")
    mask = np.unpackbits(sources.view(np.uint8), axis=1, bitorder="little").reshape(-1, 3, 64)
    number, way, square = np.nonzero(mask)
    to = _u(1) << (square + way + 7).astype(_u)
    mine = own[number] & ~(_u(1) << square.astype(_u)) | to
    theirs = other[number] & ~to
    return number, 3 * square + way, theirs.byteswap(), mine.byteswap()


def _values(weights: Weights, own: Bits, other: Bits) -> tuple[Array, npt.NDArray[np.bool_]]:
    """How good each position is for its player to move, and whether it is lost by the rules."""
    is_over = ((other & _ROW_1) != 0) | (own == 0)
    return np.where(is_over, np.float32(-1), 0.95 * value(weights, own, other)), is_over
