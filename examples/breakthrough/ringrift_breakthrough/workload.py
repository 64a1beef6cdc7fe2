"""The glue: Breakthrough as a workload of RingRift; what joins rules, network and search."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING

from ringrift.workload.api import Preset, VariantSpec
from ringrift.workload.game import GameWorkload
from ringrift_breakthrough.players import play_greedy
from ringrift_breakthrough.rules import ACTIONS, Board

if TYPE_CHECKING:
    from ringrift_breakthrough.network import Weights


class Breakthrough(GameWorkload[Board, "Weights"]):
    """Breakthrough on 8 x 8."""

    name, version = "breakthrough", "2"
    specs = (
        VariantSpec("breakthrough8_2p", 2, ACTIONS, 0.03, ("random", "greedy"), 8, can_render=True, can_parse=True),
    )
    sims, epochs, games_at_once = 16, 1, 64

    def preset(self, *, cores: int, nodes: int | None) -> Preset:
        policy = {"games_per_batch": 64, "games_per_export": 256, "window_batches_max": 24, "play_jobs_open": 2}
        policy |= {"blocks_per_job": 16, "match_jobs_open": 2, "gate.blocks_max": 200}
        settings = {"work.slots": 1, "policy.gate.elo_1": 70.0, **{f"policy.{name}": policy[name] for name in policy}}
        return Preset(settings, nodes=2, minutes=3.0, baselines={"breakthrough8_2p": ("random", "greedy")})

    def baseline(self, name: str, board: Board, random: Random) -> int:
        return play_greedy(board, random) if name == "greedy" else super().baseline(name, board, random)

    def board(self, variant: str) -> Board:
        return Board()

    def new_model(self, variant: str, random: Random) -> "Weights":
        from ringrift_breakthrough import network

        return network.new(random)

    def dump_model(self, model: "Weights") -> bytes:
        from ringrift_breakthrough import network

        return network.dump(model)

    def load_model(self, variant: str, data: bytes) -> "Weights":
        from ringrift_breakthrough import network

        return network.load(data)

    def search(
        self, model: "Weights", boards: Sequence[Board], sims: int, randoms: Sequence[Random], explore: bool
    ) -> Sequence[tuple[int, bytes]]:
        from ringrift_breakthrough.search import search

        return search(model, boards, sims, randoms, explore)

    def sample(self, board: Board, target: bytes, scores: Sequence[float]) -> bytes:
        won = scores[board.seat] > 0
        return board.own.to_bytes(8, "little") + board.other.to_bytes(8, "little") + bytes([won]) + target

    def train(self, model: "Weights", rows: bytes, random: Random) -> tuple["Weights", Mapping[str, float]]:
        from ringrift_breakthrough import network

        return network.train(model, rows, random)
