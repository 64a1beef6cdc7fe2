"""A game on the kit, as small as one can be: take 1 to 3 of the matches; the player who takes the last one wins."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from ringrift.workload.api import VariantSpec
from ringrift.workload.game import GameWorkload

MATCHES = 21


@dataclass(frozen=True)
class Heap:
    """A position: an action takes one match more than its number."""

    left: int = MATCHES
    seat: int = 0
    players: int = 2

    @property
    def is_over(self) -> bool:
        return self.left == 0

    def legal(self) -> Sequence[int]:
        return range(min(3, self.left))

    def play(self, action: int) -> "Heap":
        return Heap(self.left - action - 1, (self.seat + 1) % self.players, self.players)

    def scores(self) -> Sequence[float]:
        last = (self.seat - 1) % self.players
        return [float(self.is_over and seat == last) for seat in range(self.players)]

    def render(self) -> str:
        return f"{self.left} matches {'|' * self.left}"

    def text(self, action: int) -> str:
        return str(action + 1)

    def parse(self, text: str) -> int:
        if not text.isdigit() or int(text) - 1 not in self.legal():
            raise ValueError(f"take 1 to {len(self.legal())} matches, not {text!r}")
        return int(text) - 1


Model = tuple[float, ...]
"""How good it is to leave so many matches."""


class Nim(GameWorkload[Heap, Model]):
    """Learns a number for every heap."""

    name, version = "nim", "1"
    sims, epochs, games_at_once = 4, 3, 2
    specs = tuple(
        VariantSpec(
            f"nim_{players}p",
            players,
            3,
            1e-4,
            baselines=("random", "perfect")[: 4 - players],
            opening_plies=2,
            can_render=True,
            can_parse=True,
        )
        for players in (2, 3)
    )

    def board(self, variant: str) -> Heap:
        return Heap(players=int(variant[-2]))

    def new_model(self, variant: str, random: Random) -> Model:
        return tuple(random.random() for _ in range(MATCHES + 1))

    def dump_model(self, model: Model) -> bytes:
        return struct.pack(f">{MATCHES + 1}d", *model)

    def load_model(self, variant: str, data: bytes) -> Model:
        try:
            model = struct.unpack(f">{MATCHES + 1}d", data)
        except struct.error as error:
            raise ValueError("it has another size") from error
        if not all(abs(value) < 1e6 for value in model):
            raise ValueError("it has a weight that is not finite")
        return model

    def search(
        self, model: Model, boards: Sequence[Heap], sims: int, randoms: Sequence[Random], explore: bool
    ) -> Sequence[tuple[int, bytes]]:
        actions = []
        for board, random in zip(boards, randoms, strict=True):
            worth = {action: model[board.play(action).left] for action in board.legal()}
            is_random = explore and random.random() < 0.3
            actions.append((random.choice(board.legal()) if is_random else max(worth, key=worth.__getitem__), b""))
        return actions

    def sample(self, board: Heap, target: bytes, shares: Sequence[float]) -> bytes:
        mover_before = (board.seat - 1) % board.players
        return struct.pack(">Bf", board.left, shares[mover_before])

    def train(self, model: Model, rows: bytes, random: Random) -> tuple[Model, Mapping[str, float]]:
        weights, loss = list(model), 0.0
        samples = list(struct.iter_unpack(">Bf", rows))
        random.shuffle(samples)
        for left, share in samples:
            loss += (weights[left] - share) ** 2
            weights[left] += 0.1 * (share - weights[left])
        return tuple(weights), {"loss": loss / len(samples), "steps": len(samples)}

    def baseline(self, name: str, board: Heap, random: Random) -> int:
        if name == "perfect":
            return (board.left - 1) % 4 if board.left % 4 else random.choice(board.legal())
        return super().baseline(name, board, random)
