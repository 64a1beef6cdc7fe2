"""Play: many games at once in slots; a slot whose game has ended gets the next one.

Every game is a function of the model, the settings and its own seed, which comes from the job's seed and the game's
number.  So it does not depend on the other games, nor on whether the process died in between.

A game begins with up to `random_plies` random moves (how many is random too), so that games differ and the network
sees the consequences of bad moves.  Then every move is searched with Gumbel noise.  With `full_share` below 1 only that
share of the plies, drawn at random, gets a full search and a policy target; the others are played with `fast_sims`
simulations (KataGo's playout cap randomisation).
"""

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from ringrift_reversi import records, rng
from ringrift_reversi.engine import apply, next_mover, outcome
from ringrift_reversi.play_spec import Style
from ringrift_reversi.records import FAST, FULL, OPENING, TOP, Games
from ringrift_reversi.search import Evaluate, Search
from ringrift_reversi.topology import VARIANTS, start, topology
from ringrift_reversi.tree import F32, I32, I64, OVER, Tree

SLOTS_MAX = 4096
_U8 = npt.NDArray[np.uint8]
_U16 = npt.NDArray[np.uint16]
_U64 = npt.NDArray[np.uint64]
_PlyArrays = tuple[_U16, _U16, F32, F32, _U8, I32]


class Slots:
    """*slots* games of *variant* at once, with the numbers 0 … *games*-1 in turn."""

    def __init__(self, variant: str, *, slots: int, games: int, seed: int, style: Style) -> None:
        assert 1 <= slots <= SLOTS_MAX
        board, self.players = VARIANTS[variant]
        shape = topology(board)
        self._rays, self._start, self._cells = shape.rays, start(board, self.players), shape.cells
        self._style, self._seed, self._games = style, seed, games
        self._search = Search(
            variant, games=slots, sims=max(style.sims, style.fast_sims), c_visit=style.c_visit, c_scale=style.c_scale
        )
        self._buffer = _GameBuffer.room(slots, shape.cells, self.players)
        self._number = np.full(slots, -1, np.int64)  # -1 = the slot is empty
        self._started = 0
        self.finished: list[tuple[int, Games]] = []
        """Number and record of every finished game, in the order of their ends."""
        for slot in range(min(slots, games)):
            self._start_next(slot)

    @property
    def size(self) -> int:
        """The number of slots."""
        return len(self._number)

    @property
    def live(self) -> I64:
        """The slots with a game in them."""
        return np.flatnonzero(self._number >= 0)

    def step(self, evaluate: Evaluate) -> int:
        """Play one ply in every game; how many games ended."""
        live = self.live
        style, buffer = self._style, self._buffer
        full = np.ones(len(live), np.bool_)
        if style.full_share < 1:
            full = rng.fractions(buffer.seed, buffer.plies, live, rng.CAP) < style.full_share
        sims = np.where(full, style.sims, style.fast_sims).astype(np.int32)
        rng.make_noise(self._search.tree, live, buffer.seed, buffer.plies, self._search.noise)
        result = self._search.run(live, evaluate, sims)
        _record(self._search.tree, live, (result.edge, result.policy, result.value), full, buffer.arrays())
        self._search.play(live, result.edge)
        over = live[self._search.tree.mover[live, 0] == OVER]
        for slot in over:
            self._end(int(slot))
        return len(over)

    def drop_all_but_one(self) -> None:
        """Keep only the game with the most plies: a job that should stop still has to finish one game."""
        live = self.live
        furthest = live[np.argmax(self._buffer.plies[live])]
        self._games = self._started
        self._number[live[live != furthest]] = -1

    def state(self) -> tuple[Games, dict[str, npt.NDArray[Any]]]:
        """The unfinished games, their slots and numbers: enough to continue from here."""
        live = self.live
        parts = [self._buffer.game(int(slot), np.zeros(self.players, np.float32)) for slot in live]
        games = records.join([records.empty(self.players), *parts])
        return games, {"slot": live, "number": self._number[live], "taken": np.array([self._started], np.int64)}

    def restore(self, games: Games, where: dict[str, npt.NDArray[Any]]) -> None:
        """Continue from a `state`.  Raises ValueError if it does not fit."""
        slots, numbers, started = where["slot"], where["number"], int(where["taken"][0])
        if not len(slots) == len(numbers) == len(games) or (slots < 0).any() or (slots >= len(self._number)).any():
            raise ValueError("the unfinished games do not fit into the slots")
        self._number[:] = -1
        self._started = started
        for row, (slot, number) in enumerate(zip(slots.tolist(), numbers.tolist(), strict=True)):
            self._number[slot] = number
            self._buffer.put(slot, games, row)
            board, mover = self._start.copy(), 0
            for cell in games.moves[games.plies(row)].tolist():
                if mover < 0 or apply(board, mover, cell, self._rays) == 0:
                    raise ValueError("an unfinished game has an illegal move")
                mover = next_mover(board, mover, self.players, self._rays)
            self._search.put(slot, board, mover)

    def _start_next(self, slot: int) -> None:
        """Start the next game in *slot*, if there is one."""
        self._number[slot] = -1
        if self._started == self._games:
            return
        buffer, seed = self._buffer, int(rng.mix(self._seed, self._started, 0))
        plies = int(rng.fraction(seed, 0, rng.LENGTH) * (self._style.random_plies + 1))
        board, mover = self._start.copy(), 0
        while plies:
            board = self._start.copy()
            mover = rng.opening(board, plies, self.players, self._rays, seed, buffer.moves[slot])
            if mover >= 0:
                break
            plies, mover = plies // 2, 0  # a game that is over within its opening has no positions to train on
        buffer.seed[slot], buffer.plies[slot] = seed, plies
        opening = (slot, slice(plies))
        buffer.search[opening], buffer.pi_idx[opening] = OPENING, 0
        buffer.pi_p[opening], buffer.root_v[opening] = 0, 0
        self._number[slot] = self._started
        self._started += 1
        self._search.put(slot, board if plies else self._start, mover)

    def _end(self, slot: int) -> None:
        result = np.zeros(self.players, np.float32)
        outcome(self._search.tree.board[slot, 0], self.players, result)
        self.finished.append((int(self._number[slot]), self._buffer.game(slot, result)))
        self._start_next(slot)


@dataclass(frozen=True, slots=True)
class _GameBuffer:
    """The records of unfinished games, a row per slot."""

    moves: _U16
    pi_idx: _U16
    pi_p: F32
    root_v: F32
    search: _U8
    plies: I32
    seed: _U64

    @classmethod
    def room(cls, slots: int, cells: int, players: int) -> "_GameBuffer":
        """Empty records for *slots* games."""
        return cls(
            moves=np.zeros((slots, cells), np.uint16),
            pi_idx=np.zeros((slots, cells, TOP), np.uint16),
            pi_p=np.zeros((slots, cells, TOP), np.float32),
            root_v=np.zeros((slots, cells, players), np.float32),
            search=np.zeros((slots, cells), np.uint8),
            plies=np.zeros(slots, np.int32),
            seed=np.zeros(slots, np.uint64),
        )

    def arrays(self) -> _PlyArrays:
        """The arrays that a ply writes."""
        return self.moves, self.pi_idx, self.pi_p, self.root_v, self.search, self.plies

    def game(self, slot: int, result: npt.NDArray[np.float32]) -> Games:
        """The game in *slot* as a record."""
        plies = slice(int(self.plies[slot]))
        return Games(
            moves=self.moves[slot, plies].copy(),
            offsets=np.array([0, self.plies[slot]], np.uint32),
            pi_idx=self.pi_idx[slot, plies].copy(),
            pi_p=self.pi_p[slot, plies].astype(np.float16),
            root_v=self.root_v[slot, plies].astype(np.float16),
            result=result[None].copy(),
            seed=self.seed[slot : slot + 1].copy(),
            search=self.search[slot, plies].copy(),
        )

    def put(self, slot: int, games: Games, game: int) -> None:
        """Put *game* of *games* into *slot*."""
        plies = games.plies(game)
        count = plies.stop - plies.start
        self.moves[slot, :count], self.search[slot, :count] = games.moves[plies], games.search[plies]
        self.pi_idx[slot, :count], self.pi_p[slot, :count] = games.pi_idx[plies], games.pi_p[plies]
        self.root_v[slot, :count], self.plies[slot], self.seed[slot] = games.root_v[plies], count, games.seed[game]


@numba.njit(cache=True)
def _record(tree: Tree, games: I64, result: tuple[I32, F32, F32], full: npt.NDArray[np.bool_], out: _PlyArrays) -> None:
    """Record the search result of each of *games*, before the move is played."""
    edges, policy, value = result
    moves, pi_idx, pi_p, root_v, search, plies = out
    for place in range(games.shape[0]):
        game, count = games[place], tree.width[games[place], 0]
        ply = plies[game]
        plies[game] = ply + 1
        moves[game, ply] = tree.cell[game, 0, edges[place]]
        search[game, ply] = FULL if full[place] else FAST
        root_v[game, ply] = value[place]
        pi_idx[game, ply], pi_p[game, ply] = 0, 0
        if full[place]:
            left = policy[place].copy()
            order = np.argsort(-left[:count], kind="mergesort")[:TOP]
            whole = left[order].sum()
            for rank in range(order.size):
                pi_idx[game, ply, rank] = tree.cell[game, 0, order[rank]]
                pi_p[game, ply, rank] = left[order[rank]] / whole
