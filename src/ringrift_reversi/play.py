"""Play: many games at once in slots; a slot whose game has ended takes the next one.

Every game is a function of the model, the settings and its own seed, which comes from the job's seed and the game's
number.  So it does not matter which games were played beside it, nor whether the process died in between.

A game begins with up to `random_plies` random moves (how many is random too), so that games differ and the network
has seen what comes of bad moves.  Then every move is searched with Gumbel noise.  With `full_share` below 1 only that
share of the plies, drawn by lot, gets a full search and a policy target; the others are played with `fast_sims`
simulations (KataGo's playout cap randomisation).
"""

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from ringrift_reversi import chance, records
from ringrift_reversi.engine import apply, following, outcome
from ringrift_reversi.order import Style
from ringrift_reversi.records import FAST, FULL, OPENING, TOP, Games
from ringrift_reversi.search import Evaluate, Search
from ringrift_reversi.topology import VARIANTS, start, topology
from ringrift_reversi.tree import F32, I32, I64, OVER, Tree

SLOTS_MAX = 4096
U8 = npt.NDArray[np.uint8]
U16 = npt.NDArray[np.uint16]
U64 = npt.NDArray[np.uint64]


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
        self._kept = Kept.room(slots, shape.cells, self.players)
        self._number = np.full(slots, -1, np.int64)  # -1 = the slot is empty
        self._taken = 0
        self.finished: list[tuple[int, Games]] = []
        """Number and record of every game that has ended, in the order in which they did."""
        for slot in range(min(slots, games)):
            self._take(slot)

    @property
    def size(self) -> int:
        """How many slots there are."""
        return len(self._number)

    @property
    def live(self) -> I64:
        """The slots with a game in them."""
        return np.flatnonzero(self._number >= 0)

    def step(self, evaluate: Evaluate) -> int:
        """Play one ply in every game; how many games ended."""
        live = self.live
        style, kept = self._style, self._kept
        full = np.ones(len(live), np.bool_)
        if style.full_share < 1:
            full = chance.shares(kept.seed, kept.plies, live, chance.CAP) < style.full_share
        sims = np.where(full, style.sims, style.fast_sims).astype(np.int32)
        chance.make_noise(self._search.tree, live, kept.seed, kept.plies, self._search.noise)
        found = self._search.run(live, evaluate, sims)
        _keep(self._search.tree, live, found.edge, found.policy, found.value, full, *kept.arrays())
        self._search.play(live, found.edge)
        over = live[self._search.tree.mover[live, 0] == OVER]
        for slot in over:
            self._end(int(slot))
        return len(over)

    def forget_all_but_one(self) -> None:
        """Go on with the game that is furthest only: whoever is told to stop still owes one whole game."""
        live = self.live
        furthest = live[np.argmax(self._kept.plies[live])]
        self._games = self._taken
        self._number[live[live != furthest]] = -1

    def state(self) -> tuple[Games, dict[str, npt.NDArray[Any]]]:
        """The games under way, and which they are: enough to go on from here."""
        live = self.live
        parts = [self._kept.game(int(slot), np.zeros(self.players, np.float32)) for slot in live]
        games = records.joined([records.empty(self.players), *parts])
        return games, {"slot": live, "number": self._number[live], "taken": np.array([self._taken], np.int64)}

    def restore(self, games: Games, where: dict[str, npt.NDArray[Any]]) -> None:
        """Go on from what `state` gave.  Raises ValueError if it does not fit."""
        slots, numbers, taken = where["slot"], where["number"], int(where["taken"][0])
        if not len(slots) == len(numbers) == len(games) or (slots < 0).any() or (slots >= len(self._number)).any():
            raise ValueError("the games under way do not fit into the slots")
        self._number[:] = -1
        self._taken = taken
        for row, (slot, number) in enumerate(zip(slots.tolist(), numbers.tolist(), strict=True)):
            self._number[slot] = number
            self._kept.put(slot, games, row)
            board, mover = self._start.copy(), 0
            for cell in games.moves[games.plies(row)].tolist():
                if mover < 0 or apply(board, mover, cell, self._rays) == 0:
                    raise ValueError("a game under way has an illegal move")
                mover = following(board, mover, self.players, self._rays)
            self._search.put(slot, board, mover)

    def _take(self, slot: int) -> None:
        """Begin the next game in *slot*, if there is one."""
        self._number[slot] = -1
        if self._taken == self._games:
            return
        kept, seed = self._kept, int(chance.mixed(self._seed, self._taken, 0))
        plies = int(chance.fraction(seed, 0, chance.LENGTH) * (self._style.random_plies + 1))
        board, mover = self._start.copy(), 0
        while plies:
            board = self._start.copy()
            mover = chance.opening(board, plies, self.players, self._rays, seed, kept.moves[slot])
            if mover >= 0:
                break
            plies, mover = plies // 2, 0  # a game that is over within its opening would teach nobody anything
        kept.seed[slot], kept.plies[slot] = seed, plies
        opened = (slot, slice(plies))
        kept.search[opened], kept.pi_idx[opened], kept.pi_p[opened], kept.root_v[opened] = OPENING, 0, 0, 0
        self._number[slot] = self._taken
        self._taken += 1
        self._search.put(slot, board if plies else self._start, mover)

    def _end(self, slot: int) -> None:
        result = np.zeros(self.players, np.float32)
        outcome(self._search.tree.board[slot, 0], self.players, result)
        self.finished.append((int(self._number[slot]), self._kept.game(slot, result)))
        self._take(slot)


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept of the games under way, a row per slot."""

    moves: U16
    pi_idx: U16
    pi_p: F32
    root_v: F32
    search: U8
    plies: I32
    seed: U64

    @classmethod
    def room(cls, slots: int, cells: int, players: int) -> "Kept":
        """Room for *slots* games."""
        return cls(
            moves=np.zeros((slots, cells), np.uint16), pi_idx=np.zeros((slots, cells, TOP), np.uint16),
            pi_p=np.zeros((slots, cells, TOP), np.float32), root_v=np.zeros((slots, cells, players), np.float32),
            search=np.zeros((slots, cells), np.uint8), plies=np.zeros(slots, np.int32), seed=np.zeros(slots, np.uint64),
        )  # fmt: skip

    def arrays(self) -> tuple[U16, U16, F32, F32, U8, I32]:
        """What a ply writes."""
        return self.moves, self.pi_idx, self.pi_p, self.root_v, self.search, self.plies

    def game(self, slot: int, result: npt.NDArray[np.float32]) -> Games:
        """The game in *slot* as a record."""
        plies = slice(int(self.plies[slot]))
        return Games(
            moves=self.moves[slot, plies].copy(), offsets=np.array([0, self.plies[slot]], np.uint32),
            pi_idx=self.pi_idx[slot, plies].copy(), pi_p=self.pi_p[slot, plies].astype(np.float16),
            root_v=self.root_v[slot, plies].astype(np.float16), result=result[None].copy(),
            seed=self.seed[slot : slot + 1].copy(), search=self.search[slot, plies].copy(),
        )  # fmt: skip

    def put(self, slot: int, games: Games, game: int) -> None:
        """Take *game* of *games* into *slot*."""
        plies = games.plies(game)
        count = plies.stop - plies.start
        self.moves[slot, :count], self.search[slot, :count] = games.moves[plies], games.search[plies]
        self.pi_idx[slot, :count], self.pi_p[slot, :count] = games.pi_idx[plies], games.pi_p[plies]
        self.root_v[slot, :count], self.plies[slot], self.seed[slot] = games.root_v[plies], count, games.seed[game]


@numba.njit(cache=True)
def _keep(
    tree: Tree, games: I64, edges: I32, policy: F32, value: F32, full: npt.NDArray[np.bool_], moves: U16, pi_idx: U16,
    pi_p: F32, root_v: F32, search: U8, plies: I32,
) -> None:  # fmt: skip
    """Note what was found in each of *games*, before it is played."""
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
