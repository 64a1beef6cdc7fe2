"""The glue: Dots and Boxes as a workload of RingRift; numpy is imported only where a job or a game runs."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING

from ringrift.workload.api import Preset, VariantSpec
from ringrift.workload.game import GameWorkload
from ringrift_dots.drawing import Board
from ringrift_dots.rules import count_lines, play_greedy

if TYPE_CHECKING:
    from ringrift_dots.network import Weights

_BASELINES = ("random", "greedy")


class Dots(GameWorkload[Board, "Weights"]):
    """Dots and Boxes on 3 x 3 and on 4 x 4 boxes."""

    name, version = "dots", "1"
    requirements, install_command = ("numpy",), "pip install numpy"
    sims, epochs, games_at_once = 16, 2, 64
    specs = tuple(
        VariantSpec(f"dots{n}_2p", 2, count_lines(n), 0.004, _BASELINES, 2 * n, 256, can_render=True, can_parse=True)
        for n in (3, 4)
    )

    def preset(self, *, cores: int, nodes: int | None) -> Preset:
        nodes = nodes or 2
        settings = {"work.slots": max(cores // nodes, 1), "policy.games_per_batch": 256, "policy.gate.elo_1": 60.0}
        settings |= {"policy.games_per_export": 1024, "policy.window_batches_max": 12, "policy.play_jobs_open": 2}
        return Preset(settings, nodes=nodes, minutes=3.0, baselines={"dots4_2p": ("greedy",)})

    def board(self, variant: str) -> Board:
        return Board.start(int(variant[4]))

    def new_model(self, variant: str, random: Random) -> "Weights":
        from ringrift_dots import network

        return network.new(int(variant[4]), random.getrandbits(63))

    def dump_model(self, model: "Weights") -> bytes:
        from ringrift_dots import network

        return network.dump(model)

    def load_model(self, variant: str, data: bytes) -> "Weights":
        from ringrift_dots import network

        return network.load(int(variant[4]), data)

    def search(
        self, model: "Weights", boards: Sequence[Board], sims: int, randoms: Sequence[Random], explore: bool
    ) -> Sequence[tuple[int, bytes]]:
        from ringrift_dots.search import search

        return search(model, boards, sims, randoms, explore)

    def sample(self, board: Board, target: bytes, scores: Sequence[float]) -> bytes:
        from ringrift_dots import network

        return network.row(board, target, scores)

    def train(self, model: "Weights", rows: bytes, random: Random) -> tuple["Weights", Mapping[str, float]]:
        from ringrift_dots import network

        return network.train(model, rows, random.getrandbits(63))

    def baseline(self, name: str, board: Board, random: Random) -> int:
        return play_greedy(board, random) if name == "greedy" else super().baseline(name, board, random)
