"""Search: Gumbel AlphaZero (Danihelka et al. 2022) with a share of first place per seat, for many games at once.

The algorithm, so that another implementation can give the same root visits (all arithmetic in float32):

*Node.* A board, who moves (or that the game is over), the legal cells in ascending order, for each of them
``logp`` (log-softmax of the network's logits over the legal cells only) and ``p = exp(logp)`` (at least 1e-30), and per
edge the visits ``N`` and the sum ``W`` of the values for the mover of this node.  ``value`` is the network's vector (by
seat, sum 1), or the outcome where the game is over.  The root is evaluated first and does not count as a simulation.

*Completed Q of a node*, for its mover m:  ``q(a) = W(a) / N(a)`` where N(a) > 0, else ``v_mix`` with
``v_mix = (value[m] + ΣN · Σ' p·q / Σ' p) / (1 + ΣN)``, Σ' over visited edges (with none visited, v_mix = value[m]).

*Sigma.*  ``σ(q) = (c_visit + max N) · c_scale · q``, c_visit = 50, c_scale = 1, max N over the node's edges.

*Root edge of simulation t* (0, 1, …):  among the legal cells with ``N(a) == schedule(k, sims)[t]`` the one with the
greatest ``g(a) + logp(a) + σ(q(a))``; g is the Gumbel noise (0 in matches), ``k = min(considered, legal cells, sims)``,
considered = 16.  ``schedule(k, sims)`` is sequential halving as a list of visit counts, exactly as in mctx:

    k ≤ 1: 0, 1, 2, …, sims-1
    else:  rounds = ceil(log2(k)); left = k; visits = [0] · k
           until there are sims entries:
               extra = max(1, floor(sims / (rounds · left)))
               extra times:  append visits[0 … left-1]; add 1 to visits[0 … left-1]
               left = max(2, left // 2)
           cut to sims entries

*Edge of any other node*:  the greatest ``π(a) - N(a) / (1 + ΣN)`` with ``π = softmax(logp + σ(q))`` over legal cells.

*Ties* go to the lowest cell, everywhere.

*A simulation* goes down from the root until an edge without a child: play the cell there, skip players who cannot
move.  If no player can, the outcome is backed up; else the network evaluates the node and its vector is backed up.  It
may also end in a node where the game is over; its outcome is backed up again.  Backing up adds 1 to N and
``vector[mover of the edge's node]`` to W along the path.  So the root's visits sum to sims.

*The move*:  among the cells with the most visits the one with the greatest ``g + logp + σ(q)``.
*The policy target*:  ``softmax(logp + σ(q))`` at the root.  *The root value*:  the mean of the root's own vector and
of all vectors that were backed up.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from ringrift_reversi import tree as trees
from ringrift_reversi.topology import VARIANTS, topology
from ringrift_reversi.tree import C_SCALE, C_VISIT, F32, I8, I32, I64, OVER

_CONSIDERED = 16
Evaluate = Callable[[I8, I8], tuple[F32, F32]]
"""Boards [B, cells] and movers [B] → logits [B, cells] and shares of first place by seat [B, P]."""


@dataclass(frozen=True, slots=True)
class _SearchResult:
    """The result of a search, a row per game."""

    cell: npt.NDArray[np.int16]
    """The move."""
    edge: I32
    """The same as a place among the legal cells."""
    policy: F32
    """[·, cells]: the policy target, by place among the legal cells."""
    value: F32
    """[·, P]: the root's value."""


@cache
def _schedule(considered: int, sims: int) -> tuple[int, ...]:
    """How many visits the root edge of each simulation must have had: sequential halving."""
    if considered <= 1:
        return tuple(range(sims))
    rounds = math.ceil(math.log2(considered))
    visits, left, sequence = [0] * considered, considered, list[int]()
    while len(sequence) < sims:
        for _ in range(max(1, sims // (rounds * left))):
            sequence.extend(visits[:left])
            visits[:left] = [number + 1 for number in visits[:left]]
        left = max(2, left // 2)
    return tuple(sequence[:sims])


@cache
def _schedules(sims: int) -> I32:
    """[considered, simulation]: every schedule of *sims* simulations."""
    return np.array([_schedule(min(number, sims), sims) for number in range(_CONSIDERED + 1)], np.int32)


class Search:
    """The trees of up to *games* games that are searched together."""

    def __init__(
        self, variant: str, *, games: int, sims: int, c_visit: float = C_VISIT, c_scale: float = C_SCALE
    ) -> None:
        board, players = VARIANTS[variant]
        shape = topology(board)
        self._lines = trees.lines(board)
        self.tree = trees.allocate(games, sims + 1, shape.cells, players)
        self.tree.scale[:] = c_visit, c_scale
        self.sims = sims
        self.noise = np.zeros((games, shape.cells), np.float32)
        """Gumbel noise by game and cell; the caller writes it before a search."""
        self.evaluated = np.zeros(games, np.bool_)
        """Whether the root of a game has been evaluated by the network."""
        self._leaves = np.zeros((games, 2), np.int32)
        self._boards = np.zeros((games, shape.cells), np.int8)
        self._movers = np.zeros(games, np.int8)

    def put(self, game: int, board: I8, mover: int) -> None:
        """Make *board*, where *mover* (or the next that can) moves, the root of *game*."""
        trees.set_root(self.tree, game, board, mover, self._lines)
        self.evaluated[game] = False

    def run(self, games: I64, evaluate: Evaluate, sims: I32) -> _SearchResult:
        """Search *games*, which are not over, with *sims* simulations each, at least one."""
        (_, _, cells), players = self.tree.board.shape, self.tree.sums.shape[1]
        assert (self.tree.mover[games, 0] != OVER).all()
        assert 1 <= int(sims.min()) <= int(sims.max()) <= self.sims
        self._evaluate_roots(games[~self.evaluated[games]], evaluate)
        visits = self._root_visits(games, sims)
        is_uniform = bool((sims == sims[0]).all())
        for step in range(int(sims.max())):
            rows = slice(None) if is_uniform else sims > step
            leaves = self._leaves, self._boards, self._movers
            count = trees.descend(self.tree, games[rows], self.noise, visits[rows, step], self._lines, *leaves)
            self._expand(count, evaluate)
        edges, policy = np.zeros(len(games), np.int32), np.zeros((len(games), cells), np.float32)
        value = np.zeros((len(games), players), np.float32)
        trees.conclude(self.tree, games, self.noise, edges, policy, value)
        return _SearchResult(cell=self.tree.cell[games, 0, edges], edge=edges, policy=policy, value=value)

    def play(self, games: I64, edges: I32) -> None:
        """Play *edges* in *games*; the new roots keep their evaluation by the network."""
        trees.advance_all(self.tree, games, edges, self._lines, self.evaluated)

    def visits(self, games: I64) -> I32:
        """[·, cells]: the visits of each cell at the root."""
        visits = np.zeros((len(games), self.tree.board.shape[2]), np.int32)
        for row, game in enumerate(games):
            legal = slice(int(self.tree.width[game, 0]))
            visits[row, self.tree.cell[game, 0, legal]] = self.tree.visits[game, 0, legal]
        return visits

    def _evaluate_roots(self, games: I64, evaluate: Evaluate) -> None:
        """Evaluate the roots of *games*."""
        count = len(games)
        if count:
            self._leaves[:count, 0], self._leaves[:count, 1] = games, 0
            self._boards[:count], self._movers[:count] = self.tree.board[games, 0], self.tree.mover[games, 0]
            self._expand(count, evaluate)
            self.evaluated[games] = True

    def _expand(self, count: int, evaluate: Evaluate) -> None:
        if count:
            logits, values = evaluate(self._boards[:count], self._movers[:count])
            trees.expand(self.tree, self._leaves, count, logits, values)

    def _root_visits(self, games: I64, sims: I32) -> I32:
        """[·, simulation]: the visits that each game's root edge must have had; 0 after its last simulation."""
        considered = np.minimum(_CONSIDERED, self.tree.width[games, 0])
        visits = np.zeros((len(games), int(sims.max())), np.int32)
        for number in np.unique(sims):
            rows = np.flatnonzero(sims == number)
            visits[rows, :number] = _schedules(int(number))[considered[rows]]
        return visits
