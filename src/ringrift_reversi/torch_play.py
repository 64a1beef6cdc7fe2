"""Self-play as in ``play.py``, many thousands of games at once, as batched torch operations.

    for finished in play(net, games=65536, seed=7, style=Style(sims=32), slots=16384, device="cuda"):
        …  # once per ply, often without a game: heartbeat, checkpoint, or break to stop

Every game is the same function of the model, the settings and its own seed as in ``play.py``, and is the same game
if the network gives the same numbers.  While the caller handles finished games, the device plays on.
"""

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ringrift_reversi import torch_net, torch_rng, torch_rules
from ringrift_reversi.net import Net
from ringrift_reversi.play_spec import Style
from ringrift_reversi.records import FAST, FULL, TOP, Games
from ringrift_reversi.topology import VARIANTS, start, topology
from ringrift_reversi.torch_rules import Rules
from ringrift_reversi.torch_search import Evaluate, Roots, Search, SearchResult

SLOTS = 16384
_SLOTS_STEP = 64  # so that rows stay aligned


@dataclass(frozen=True, slots=True)
class Finished:
    """The games that have ended at one ply."""

    numbers: npt.NDArray[np.int64]
    games: Games


def play(
    net: Net,
    *,
    games: int,
    seed: int,
    style: Style,
    slots: int = SLOTS,
    device: str = "cuda",
    dtype: str = "bfloat16",
    done: Collection[int] = (),
) -> Iterator[Finished]:
    """Play the games 0 … *games*-1 of a job but those already *done*, *slots* at once; yields once per ply."""
    board, players = VARIANTS[net.variant]
    rules = torch_rules.make_rules(topology(board), players, device)
    evaluate = torch_net.evaluator(net, device=device, dtype=getattr(torch, dtype))
    numbers = np.setdiff1d(np.arange(games), np.fromiter(done, np.int64, len(done)))
    if torch.device(device).type == "cuda":
        # The compiler gives up on a function that it has compiled for many shapes: each job starts afresh.
        torch.compiler.reset()
    if len(numbers):
        rows = min(slots, len(numbers))
        yield from _Slots(rules, evaluate, numbers, seed=seed, style=style, rows=rows + -rows % _SLOTS_STEP).run()


@dataclass(frozen=True)
class _Opened:
    """New games after their random openings."""

    number: Tensor
    seed: Tensor
    plies: Tensor
    moves: Tensor
    roots: Roots


@dataclass(frozen=True)
class _GameBuffer:
    """The records of unfinished games, a row per slot; the plies as in ``records.py``."""

    number: Tensor
    """int64[S]; -1 where the slot is empty."""
    seed: Tensor
    plies: Tensor
    result: Tensor
    moves: Tensor
    pi_idx: Tensor
    pi_p: Tensor
    root_v: Tensor
    search: Tensor

    @classmethod
    def room(cls, slots: int, rules: Rules) -> "_GameBuffer":
        """Empty records for *slots* games."""

        def zeros(kind: torch.dtype, *shape: int) -> Tensor:
            return torch.zeros(slots, *shape, dtype=kind, device=rules.device)

        cells, players = rules.cells, rules.players
        return cls(
            *(zeros(torch.int64) - 1, zeros(torch.int64), zeros(torch.int64), zeros(torch.float32, players)),
            *(zeros(torch.int16, cells), zeros(torch.int16, cells, TOP), zeros(torch.float16, cells, TOP)),
            *(zeros(torch.float16, cells, players), zeros(torch.uint8, cells)),
        )

    def begin(self, slots: Tensor, new: "_Opened", rows: slice) -> None:
        """Put the games *rows* of *new* into *slots*."""
        self.number[slots], self.seed[slots], self.plies[slots] = new.number[rows], new.seed[rows], new.plies[rows]
        for part in (self.moves, self.pi_idx, self.pi_p, self.root_v, self.search):
            part[slots] = 0
        self.moves[slots, : new.moves.shape[1]] = new.moves[rows].short()

    def record(self, slots: Tensor, result: SearchResult, legal: Tensor, kind: int) -> None:
        """Record the search *result* as the next ply of each of *slots*."""
        ply = self.plies[slots]
        self.moves[slots, ply] = result.action.short()
        self.root_v[slots, ply] = result.value.half()
        self.search[slots, ply] = kind
        self.plies[slots] = ply + 1
        self.result[slots] = result.roots.vector
        if kind == FULL:
            best, order = torch.where(legal, result.policy, -1).sort(dim=1, descending=True, stable=True)
            best, order = best[:, :TOP], torch.where(best[:, :TOP] < 0, 0, order[:, :TOP])
            best = best.clamp(min=0)
            self.pi_idx[slots, ply] = order.short()
            self.pi_p[slots, ply] = (best / best.sum(1, keepdim=True)).half()

    def fetch(self, slots: Tensor) -> dict[str, npt.NDArray[np.generic]]:
        """The rows of *slots* on the host."""
        return {name: part[slots].cpu().numpy() for name, part in vars(self).items()}


def _finished(rows: dict[str, npt.NDArray[np.generic]]) -> Finished:
    lengths = rows["plies"].astype(np.int64)
    within = np.arange(rows["moves"].shape[1]) < lengths[:, None]
    games = Games(
        moves=rows["moves"][within].astype(np.uint16),
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32),
        pi_idx=rows["pi_idx"][within].astype(np.uint16),
        pi_p=rows["pi_p"][within].astype(np.float16),
        root_v=rows["root_v"][within].astype(np.float16),
        result=rows["result"].astype(np.float32),
        seed=rows["seed"].astype(np.uint64),
        search=rows["search"][within].astype(np.uint8),
    )
    return Finished(rows["number"].astype(np.int64), games)


class _Slots:
    """Unfinished games in slots; a slot whose game has ended gets the next one.  *rows* slots are searched together.

    With full and fast plies there are twice as many slots, so that each search is of one kind and still full.
    """

    def __init__(
        self, rules: Rules, evaluate: Evaluate, numbers: npt.NDArray[np.int64], *, seed: int, style: Style, rows: int
    ) -> None:
        self._rules, self._style, self._seed, self._rows = rules, style, seed, rows
        self._numbers, self._begun, self._turn = numbers, 0, 0
        kinds = {FULL: style.sims} if style.full_share >= 1 else {FULL: style.sims, FAST: style.fast_sims}
        scale, is_fused = (style.c_visit, style.c_scale), rules.device.type == "cuda"
        self._searches = {
            kind: Search(rules, evaluate, games=rows, sims=sims, scale=scale, compiled=is_fused, graphed=is_fused)
            for kind, sims in kinds.items()
        }
        self._slots = torch.arange(rows * len(kinds), device=rules.device)
        self._served = torch.zeros_like(self._slots)
        self._opened = self._open()
        # The last row of both is not a slot: writes for no game go there.
        self._buffer = _GameBuffer.room(len(self._slots) + 1, rules)
        self._roots = self._opened.roots.room(len(self._slots) + 1)
        self._roots.mover.fill_(-1)
        self._begin(self._slots)

    def run(self) -> Iterator[Finished]:
        """Play until every game has ended."""
        last, ended = None, 0
        for _ in range(len(self._numbers) * self._rules.cells):
            self._ply()
            if last is not None:
                yield _finished(last)
            over = self._slots[((self._buffer.number >= 0) & (self._roots.mover < 0))[:-1]]
            last = self._buffer.fetch(over)
            self._buffer.number[over] = -1
            self._begin(over)
            ended += len(over)
            if ended == len(self._numbers):
                break
        if last is not None:
            yield _finished(last)

    def _ply(self) -> None:
        """Search and play one ply in as many games as are searched together."""
        kind, slots = self._due()
        roots = self._roots.at(slots)
        noise = torch_rng.noise(self._buffer.seed[slots], self._buffer.plies[slots], self._rules.cells)
        result = self._searches[kind].run(roots, noise)
        self._buffer.record(slots, result, roots.logp > -math.inf, kind)
        self._roots.put(slots, result.roots)
        self._roots.mover[-1], self._buffer.plies[-1] = -1, 0

    def _due(self) -> tuple[int, Tensor]:
        """The kind of the next search and its slots, padded with the row that is not a slot."""
        live, no_slot = self._buffer.number[:-1] >= 0, len(self._slots)
        if len(self._searches) == 1:
            return FULL, torch.where(live, self._slots, no_slot)
        self._turn += 1
        number = torch_rng.fraction(self._buffer.seed[:-1], self._buffer.plies[:-1], torch_rng.CAP)
        full, fast = live & (number < self._style.full_share), live & (number >= self._style.full_share)
        kind, due = (FULL, full) if int(full.sum()) >= int(fast.sum()) else (FAST, fast)
        order = torch.where(due, self._served, self._turn).argsort(stable=True)[: self._rows]
        self._served[order] = self._turn
        return kind, torch.where(due[order], order, no_slot)

    def _begin(self, slots: Tensor) -> None:
        """Begin the next games in *slots*, as long as there are any."""
        while len(slots) and self._begun < len(self._numbers):
            row = self._begun % self._rows
            if row == 0 and self._begun:
                self._opened = self._open()
            count = min(len(slots), len(self._numbers) - self._begun, self._rows - row)
            rows = slice(row, row + count)
            self._buffer.begin(slots[:count], self._opened, rows)
            self._roots.put(slots[:count], self._opened.roots.at(rows))
            self._begun, slots = self._begun + count, slots[count:]

    def _open(self) -> _Opened:
        """The next games, as many as are searched together; padded with games that are not played."""
        rules = self._rules
        number = torch.as_tensor(self._numbers[self._begun : self._begun + self._rows]).to(rules.device)
        number = torch.nn.functional.pad(number, (0, self._rows - len(number)))
        seed = torch_rng.seeds(self._seed, number)
        board = torch.as_tensor(start(rules.board, rules.players)).to(rules.device)
        discs = torch_rules.pack(rules, board.expand(self._rows, -1))
        plies, moves, discs, mover = torch_rng.openings(rules, discs, seed, self._style.random_plies)
        within = torch.arange(moves.shape[1], device=rules.device) < plies[:, None]
        roots = self._searches[FULL].look(discs, mover)
        return _Opened(number, seed, plies, torch.where(within, moves, 0), roots)
