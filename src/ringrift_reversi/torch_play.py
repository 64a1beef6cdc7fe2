"""Play as ``play.py`` does, many thousands of games at once, as batched torch operations.

    for finished in play(net, games=65536, seed=7, style=Style(sims=32), slots=16384, device="cuda"):
        …  # once per ply, often with no game in it: heartbeat, keep what there is, or break to stop

Every game is the same function of the model, the settings and its own seed as in ``play.py``, and comes out the same
where the network says the same.  While the caller looks at what has ended, the device already plays on.
"""

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ringrift_reversi import torch_chance, torch_net, torch_rules
from ringrift_reversi.net import Net
from ringrift_reversi.order import Style
from ringrift_reversi.records import FAST, FULL, TOP, Games
from ringrift_reversi.topology import VARIANTS, start, topology
from ringrift_reversi.torch_rules import Rules
from ringrift_reversi.torch_search import Evaluate, Found, Roots, Search

SLOTS = 16384
SLOTS_STEP = 64  # so that rows stay aligned


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
    rules = torch_rules.lay(topology(board), players, device)
    evaluate = torch_net.evaluator(net, device=device, dtype=getattr(torch, dtype))
    numbers = np.setdiff1d(np.arange(games), np.fromiter(done, np.int64, len(done)))
    if torch.device(device).type == "cuda":
        # The compiler gives up on a function that it has met in many shapes: each job begins with a clean slate.
        torch.compiler.reset()
    if len(numbers):
        rows = min(slots, len(numbers))
        yield from Slots(rules, evaluate, numbers, seed=seed, style=style, rows=rows + -rows % SLOTS_STEP).run()


@dataclass(frozen=True)
class Opened:
    """New games behind their random openings."""

    number: Tensor
    seed: Tensor
    plies: Tensor
    moves: Tensor
    roots: Roots


@dataclass(frozen=True)
class Kept:
    """What is kept of the games under way, a row per slot; the plies as in ``records.py``."""

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
    def room(cls, slots: int, rules: Rules) -> "Kept":
        """Room for *slots* games."""

        def zeros(kind: torch.dtype, *shape: int) -> Tensor:
            return torch.zeros(slots, *shape, dtype=kind, device=rules.device)

        cells, players = rules.cells, rules.players
        return cls(
            number=zeros(torch.int64) - 1, seed=zeros(torch.int64), plies=zeros(torch.int64),
            result=zeros(torch.float32, players), moves=zeros(torch.int16, cells),
            pi_idx=zeros(torch.int16, cells, TOP), pi_p=zeros(torch.float16, cells, TOP),
            root_v=zeros(torch.float16, cells, players), search=zeros(torch.uint8, cells),
        )  # fmt: skip

    def begin(self, slots: Tensor, new: "Opened", rows: slice) -> None:
        """Put the games *rows* of *new* into *slots*."""
        self.number[slots], self.seed[slots], self.plies[slots] = new.number[rows], new.seed[rows], new.plies[rows]
        for part in (self.moves, self.pi_idx, self.pi_p, self.root_v, self.search):
            part[slots] = 0
        self.moves[slots, : new.moves.shape[1]] = new.moves[rows].short()

    def note(self, slots: Tensor, found: Found, legal: Tensor, kind: int) -> None:
        """Write down what was found for the next ply of each of *slots*."""
        ply = self.plies[slots]
        self.moves[slots, ply] = found.action.short()
        self.root_v[slots, ply] = found.value.half()
        self.search[slots, ply] = kind
        self.plies[slots] = ply + 1
        self.result[slots] = found.roots.vector
        if kind == FULL:
            best, order = torch.where(legal, found.policy, -1).sort(dim=1, descending=True, stable=True)
            best, order = best[:, :TOP], torch.where(best[:, :TOP] < 0, 0, order[:, :TOP])
            best = best.clamp(min=0)
            self.pi_idx[slots, ply] = order.short()
            self.pi_p[slots, ply] = (best / best.sum(1, keepdim=True)).half()

    def fetch(self, slots: Tensor) -> dict[str, npt.NDArray[np.generic]]:
        """The rows of *slots* on the host."""
        return {name: part[slots].cpu().numpy() for name, part in vars(self).items()}


def _finished(kept: dict[str, npt.NDArray[np.generic]]) -> Finished:
    lengths = kept["plies"].astype(np.int64)
    within = np.arange(kept["moves"].shape[1]) < lengths[:, None]
    games = Games(
        moves=kept["moves"][within].astype(np.uint16),
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32),
        pi_idx=kept["pi_idx"][within].astype(np.uint16),
        pi_p=kept["pi_p"][within].astype(np.float16),
        root_v=kept["root_v"][within].astype(np.float16),
        result=kept["result"].astype(np.float32),
        seed=kept["seed"].astype(np.uint64),
        search=kept["search"][within].astype(np.uint8),
    )
    return Finished(kept["number"].astype(np.int64), games)


class Slots:
    """Games under way in slots; a slot whose game has ended takes the next one.  *rows* slots are searched together.

    With full and fast plies there are twice as many slots, so that each search is of one kind and still full.
    """

    def __init__(
        self, rules: Rules, evaluate: Evaluate, numbers: npt.NDArray[np.int64], *, seed: int, style: Style, rows: int
    ) -> None:
        self._rules, self._style, self._seed, self._rows = rules, style, seed, rows
        self._numbers, self._begun, self._turn = numbers, 0, 0
        on_gpu = rules.device.type == "cuda"
        kinds = {FULL: style.sims} if style.full_share >= 1 else {FULL: style.sims, FAST: style.fast_sims}
        self._searches = {
            kind: Search(
                rules, evaluate, games=rows, sims=sims, c_visit=style.c_visit, c_scale=style.c_scale, compiled=on_gpu,
                graphed=on_gpu,
            )
            for kind, sims in kinds.items()
        }  # fmt: skip
        self._slots = torch.arange(rows * len(kinds), device=rules.device)
        self._served = torch.zeros_like(self._slots)
        self._opened = self._open()
        # The last row of both is no slot: what concerns no game goes there.
        self._kept = Kept.room(len(self._slots) + 1, rules)
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
            over = self._slots[((self._kept.number >= 0) & (self._roots.mover < 0))[:-1]]
            last = self._kept.fetch(over)
            self._kept.number[over] = -1
            self._begin(over)
            ended += len(over)
            if ended == len(self._numbers):
                break
        if last is not None:
            yield _finished(last)

    def _ply(self) -> None:
        """Search and play one ply in as many games as go together."""
        kind, slots = self._due()
        roots = self._roots.at(slots)
        noise = torch_chance.noise(self._kept.seed[slots], self._kept.plies[slots], self._rules.cells)
        found = self._searches[kind].run(roots, noise)
        self._kept.note(slots, found, roots.logp > -math.inf, kind)
        self._roots.put(slots, found.roots)
        self._roots.mover[-1], self._kept.plies[-1] = -1, 0

    def _due(self) -> tuple[int, Tensor]:
        """The kind of the next search and the slots for it; where there are too few, the row that is none."""
        live, nobody = self._kept.number[:-1] >= 0, len(self._slots)
        if len(self._searches) == 1:
            return FULL, torch.where(live, self._slots, nobody)
        self._turn += 1
        lot = torch_chance.fraction(self._kept.seed[:-1], self._kept.plies[:-1], torch_chance.CAP)
        full, fast = live & (lot < self._style.full_share), live & (lot >= self._style.full_share)
        kind, due = (FULL, full) if int(full.sum()) >= int(fast.sum()) else (FAST, fast)
        order = torch.where(due, self._served, self._turn).argsort(stable=True)[: self._rows]
        self._served[order] = self._turn
        return kind, torch.where(due[order], order, nobody)

    def _begin(self, slots: Tensor) -> None:
        """Begin the next games in *slots*, as long as there are any."""
        while len(slots) and self._begun < len(self._numbers):
            row = self._begun % self._rows
            if row == 0 and self._begun:
                self._opened = self._open()
            count = min(len(slots), len(self._numbers) - self._begun, self._rows - row)
            rows = slice(row, row + count)
            self._kept.begin(slots[:count], self._opened, rows)
            self._roots.put(slots[:count], self._opened.roots.at(rows))
            self._begun, slots = self._begun + count, slots[count:]

    def _open(self) -> Opened:
        """The next games, as many as are searched together; behind the last one, some that will not be played."""
        rules = self._rules
        number = torch.as_tensor(self._numbers[self._begun : self._begun + self._rows]).to(rules.device)
        number = torch.nn.functional.pad(number, (0, self._rows - len(number)))
        seed = torch_chance.seeds(self._seed, number)
        board = torch.as_tensor(start(rules.board, rules.players)).to(rules.device)
        discs = torch_rules.pack(rules, board.expand(self._rows, -1))
        plies, moves, discs, mover = torch_chance.openings(rules, discs, seed, self._style.random_plies)
        within = torch.arange(moves.shape[1], device=rules.device) < plies[:, None]
        roots = self._searches[FULL].look(discs, mover)
        return Opened(number, seed, plies, torch.where(within, moves, 0), roots)
