"""The search follows its description."""

import hashlib
import math

import numpy as np
import numpy.typing as npt
import pytest

from reversi import reference
from ringrift_reversi.rng import opening
from ringrift_reversi.search import Evaluate, Search, _schedule, _SearchResult
from ringrift_reversi.topology import VARIANTS, start, topology
from ringrift_reversi.tree import F32, I8

F = np.float32


def evaluator(players: int) -> Evaluate:
    """Numbers from a hash of the position, on so coarse a grid that their sums are exact in float32."""

    def evaluate(boards: I8, to_move: I8) -> tuple[F32, F32]:
        logits = np.zeros(boards.shape, F)
        values = np.zeros((len(boards), players), F)
        for row in range(len(boards)):
            numbers = np.frombuffer(
                hashlib.shake_128(boards[row].tobytes() + bytes([to_move[row]])).digest(boards.shape[1] + players),
                np.uint8,
            )
            logits[row] = (numbers[players:] % 64).astype(F) / 16
            values[row] = (numbers[:players] % 64).astype(F) / 256
        return logits, values

    return evaluate


def neutral(players: int) -> Evaluate:
    """Evaluate every position as even."""

    def evaluate(boards: I8, to_move: I8) -> tuple[F32, F32]:
        return np.zeros(boards.shape, F), np.full((len(boards), players), 1 / players, F)

    return evaluate


def positions(variant: str, count: int, plies: int) -> tuple[I8, npt.NDArray[np.int64]]:
    """Positions after random moves."""
    board, players = VARIANTS[variant]
    shape = topology(board)
    boards, movers = np.zeros((count, shape.cells), np.int8), np.zeros(count, np.int64)
    for row in range(count):
        movers[row] = -1
        for seed in range(row * 100, row * 100 + 100):
            if movers[row] < 0:
                boards[row] = start(board, players)
                movers[row] = opening(boards[row], plies, players, shape.rays, seed, np.zeros(shape.cells, np.uint16))
    assert (movers >= 0).all()
    return boards, movers


def searched(
    variant: str, boards: I8, movers: npt.NDArray[np.int64], sims: int, evaluate: Evaluate, noise: float = 0
) -> tuple[Search, _SearchResult]:
    """Return the search after its simulations, and its result."""
    search = Search(variant, games=len(boards), sims=sims)
    search.noise[:] = noise * np.random.default_rng(1).gumbel(size=search.noise.shape)
    for row, board in enumerate(boards):
        search.put(row, board, int(movers[row]))
    games = np.arange(len(boards))
    return search, search.run(games, evaluate, np.full(len(boards), sims, np.int32))


class Node:
    """A node of the search as its description has it, in plain Python but for float32."""

    def __init__(self, board: list[int], mover: int, players: int, rays: reference.Rays, evaluate: Evaluate) -> None:
        self.board, self.mover, self.players, self.rays, self.evaluate = board, mover, players, rays, evaluate
        self.children: dict[int, Node] = {}
        if mover < 0:
            self.value = np.array(reference.outcome(board, players), F)
            return
        logits, values = evaluate(np.array([board], np.int8), np.array([mover], np.int8))
        self.cells = reference.legal(board, mover, rays)
        own = logits[0, self.cells]
        whole = F(0)
        for logit in own:
            whole += np.exp(logit - own.max())
        self.logp = own - (own.max() + np.log(whole))
        self.p, self.value = np.maximum(np.exp(self.logp), F(1e-30)), values[0]
        self.n, self.w = [0] * len(own), [F(0)] * len(own)

    def scores(self) -> list[np.float32]:
        """logp + σ(completed Q)."""
        edges = range(len(self.cells))
        q = {edge: self.w[edge] / F(self.n[edge]) for edge in edges if self.n[edge]}
        mix, visited = self.value[self.mover], sum(self.n)
        if q:
            weight = weighted = F(0)
            for edge in q:
                weight += self.p[edge]
                weighted += self.p[edge] * q[edge]
            mix = (mix + F(visited) * (weighted / weight)) / F(1 + visited)
        return [self.logp[edge] + (F(50) + F(max(self.n))) * F(1) * q.get(edge, mix) for edge in edges]

    def inner_edge(self) -> int:
        """π(a) - N(a) / (1 + ΣN)."""
        scores = self.scores()
        raised = [np.exp(score - max(scores)) for score in scores]
        whole = F(0)
        for each in raised:
            whole += each
        worth = [each / whole - F(n) / F(1 + sum(self.n)) for each, n in zip(raised, self.n, strict=True)]
        return worth.index(max(worth))

    def root_edge(self, due: int) -> int:
        """The best among those with *due* visits."""
        scores = [score if n == due else -math.inf for score, n in zip(self.scores(), self.n, strict=True)]
        return scores.index(max(scores))

    def simulate(self, edge: int) -> np.ndarray:
        """Go down through *edge*, back up and return the vector."""
        if edge in self.children:
            below = self.children[edge]
            vector = below.value if below.mover < 0 else below.simulate(below.inner_edge())
        else:
            board = list(self.board)
            reference.apply(board, self.mover, self.cells[edge], self.rays)
            mover = reference.next_mover(board, self.mover, self.players, self.rays)
            below = self.children[edge] = Node(board, mover, self.players, self.rays, self.evaluate)
            vector = below.value
        self.n[edge] += 1
        self.w[edge] += vector[self.mover]
        return vector


@pytest.mark.parametrize("variant", ["square8_2p", "hex8_3p", "square8_4p"])
@pytest.mark.parametrize("plies", [6, 30])
def test_root_visits_are_those_of_the_description(variant: str, plies: int) -> None:
    """The compiled search and a direct one after the description visit the same cells equally often."""
    board, players = VARIANTS[variant]
    rays, evaluate = topology(board).rays.tolist(), evaluator(players)
    boards, movers = positions(variant, 12, plies)

    search, _ = searched(variant, boards, movers, 24, evaluate)

    for row, visits in enumerate(search.visits(np.arange(12))):
        root = Node(boards[row].tolist(), int(movers[row]), players, rays, evaluate)
        for due in _schedule(min(16, len(root.cells), 24), 24):
            root.simulate(root.root_edge(due))
        expected = np.zeros_like(visits)
        expected[root.cells] = root.n
        assert np.array_equal(visits, expected)


@pytest.mark.parametrize("variant", ["square8_2p", "hex8_3p", "hex8_4p"])
@pytest.mark.parametrize("sims", [1, 5, 16, 33])
def test_visits_sum_to_the_simulations_and_are_legal(variant: str, sims: int) -> None:
    """Every simulation is one visit of a legal cell; the move is among the most visited."""
    board, players = VARIANTS[variant]
    boards, movers = positions(variant, 20, 20)

    search, result = searched(variant, boards, movers, sims, evaluator(players), noise=1)

    visits = search.visits(np.arange(20))
    rays = topology(board).rays.tolist()
    for row in range(20):
        legal = np.zeros(boards.shape[1], np.bool_)
        legal[reference.legal(boards[row].tolist(), int(movers[row]), rays)] = True
        assert visits[row].sum() == sims
        assert not visits[row][~legal].any()
        assert visits[row, result.cell[row]] == visits[row].max()
        assert result.policy[row, : legal.sum()].sum() == pytest.approx(1, abs=1e-5)
        assert not result.policy[row, legal.sum() :].any()


def best_share(board: list[int], mover: int, players: int, rays: reference.Rays) -> list[float]:
    """Return every seat's share if each plays for its own share (the first best move)."""
    if mover < 0:
        return reference.outcome(board, players)
    shares = []
    for cell in reference.legal(board, mover, rays):
        after = list(board)
        reference.apply(after, mover, cell, rays)
        shares.append(best_share(after, reference.next_mover(after, mover, players, rays), players, rays))
    return max(shares, key=lambda share: share[mover])


def test_forced_wins_are_found() -> None:
    """Near the end, a search with a neutral evaluation still finds the best move."""
    variant, players = "square8_2p", 2
    rays = topology("square8").rays.tolist()
    boards, movers = positions(variant, 40, 55)

    _, result = searched(variant, boards, movers, 400, neutral(players))

    decisive = 0
    for row in range(40):
        board, mover = boards[row].tolist(), int(movers[row])
        best = best_share(board, mover, players, rays)[mover]
        reference.apply(board, mover, int(result.cell[row]), rays)
        got = best_share(board, reference.next_mover(board, mover, players, rays), players, rays)[mover]
        decisive += best == 1
        assert got == best
    assert decisive > 5


def test_without_noise_a_search_is_deterministic_in_any_batch() -> None:
    """The same position always gets the same visits."""
    boards, movers = positions("hex8_3p", 30, 10)
    together, _ = searched("hex8_3p", boards, movers, 16, evaluator(3))

    for row in (0, 7, 29):
        alone, _ = searched("hex8_3p", boards[row : row + 1], movers[row : row + 1], 16, evaluator(3))
        assert np.array_equal(alone.visits(np.arange(1))[0], together.visits(np.arange(30))[row])


def test_games_may_have_different_numbers_of_simulations() -> None:
    """A fast search beside a full one does what it would do alone."""
    boards, movers = positions("square8_2p", 10, 10)
    sims = np.array([4, 16] * 5, np.int32)
    search = Search("square8_2p", games=10, sims=16)
    for row in range(10):
        search.put(row, boards[row], int(movers[row]))

    search.run(np.arange(10), evaluator(2), sims)

    visits = search.visits(np.arange(10))
    for few in (4, 16):
        alike, _ = searched("square8_2p", boards, movers, few, evaluator(2))
        rows = np.flatnonzero(sims == few)
        assert np.array_equal(visits[rows], alike.visits(np.arange(10))[rows])


def test_a_root_that_was_a_child_keeps_its_evaluation() -> None:
    """After a move, a search from the kept node is that from the position set up anew."""
    boards, movers = positions("hex8_3p", 20, 12)
    games = np.arange(20)
    search, result = searched("hex8_3p", boards, movers, 16, evaluator(3))

    search.play(games, result.edge)
    assert search.evaluated.any()
    alive = games[search.tree.mover[:, 0] >= 0]
    after, seat = search.tree.board[alive, 0].copy(), search.tree.mover[alive, 0].astype(np.int64)
    search.run(alive, evaluator(3), np.full(len(alive), 16, np.int32))

    anew, _ = searched("hex8_3p", after, seat, 16, evaluator(3))
    assert np.array_equal(search.visits(alive), anew.visits(np.arange(len(alive))))


def test_the_schedule_is_sequential_halving() -> None:
    """Half of the considered cells are left after each round; the numbers of mctx."""
    assert _schedule(1, 4) == (0, 1, 2, 3)
    assert _schedule(4, 8) == (0, 0, 0, 0, 1, 1, 2, 2)
    assert _schedule(16, 16) == (0,) * 16
    assert _schedule(3, 7) == (0, 0, 0, 1, 1, 2, 2)
    assert all(len(_schedule(k, sims)) == sims for k in range(17) for sims in (1, 2, 16, 50))
