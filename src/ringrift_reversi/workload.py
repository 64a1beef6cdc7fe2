"""Workload: reversi as a plug-in; numpy, numba and torch are imported only when a job or a game begins."""

from collections.abc import Sequence
from typing import TextIO

from ringrift.workload.api import JobContext, JobResult, JobSpec, Preset, Refused, Scalar, TerminalGame, VariantSpec
from ringrift_reversi.preset import preset

VERSION = "1"
# Board → its cells, and the CPU seconds of a game with 2, 3 and 4 players at the default settings on one core.
_BOARDS: dict[str, tuple[int, tuple[float, float, float]]] = {
    "square8": (64, (0.018, 0.018, 0.018)),
    "square19": (361, (0.7, 0.7, 0.7)),
    "hex8": (61, (0.018, 0.018, 0.018)),
    "hexagonal": (469, (1.0, 1.0, 1.0)),
}


class Reversi:
    """Othello's rules on any board of rays, for two to four players."""

    name = "reversi"
    version = VERSION
    requirements = ("numpy", "numba", "torch", "safetensors")
    install_command = "pip install 'ringrift[train]'"

    def variants(self) -> Sequence[VariantSpec]:
        return tuple(
            VariantSpec(name=f"{board}_{players}p", players=players, actions=cells, cpu_seconds_per_game=seconds)
            for board, (cells, costs) in _BOARDS.items()
            for players, seconds in zip((2, 3, 4), costs, strict=True)
        )

    def run(self, job: JobSpec, ctx: JobContext) -> JobResult:
        if all(spec.name != job.variant for spec in self.variants()):
            raise Refused(f"reversi does not play {job.variant!r:.80}")
        if job.stage == "play" and job.params.get("device") == "cuda":
            from ringrift_reversi import torch_selfplay  # a machine that only plays on its GPU needs no numba

            return torch_selfplay.run(job, ctx)
        from ringrift_reversi import stages

        return stages.run(job, ctx)

    def preset(self, *, cores: int, nodes: int | None) -> Preset:
        return preset(cores=cores, nodes=nodes)

    def measured_params(self) -> dict[str, Scalar]:
        """The number type (``dtype``) and ``threads`` with which this machine evaluates networks fastest."""
        from ringrift_reversi.evaluate import measured_params

        return measured_params()

    def play_in_terminal(self, game: TerminalGame, lines: TextIO, out: TextIO) -> bool:
        from ringrift_reversi import terminal_game

        return terminal_game.play(game, lines, out)
