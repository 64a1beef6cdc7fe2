"""Workload: reversi as a plug-in; numpy, numba and torch are imported only when a job or a game begins."""

import tomllib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from ringrift.workload.api import JobContext, JobResult, JobSpec, ParamSpec, Preset, Refused, Scalar, VariantSpec
from ringrift.workload.game_files import FORMATS
from ringrift_reversi.preset import GAMES_PER_BATCH, preset

if TYPE_CHECKING:
    from ringrift_reversi.terminal import Position

VERSION = "1"
OPENING_PLIES = 8
_BASELINES = ("random", "greedy", "heuristic", "uct:200")
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
    game_files = FORMATS
    install_command = "pip install 'ringrift[train]'"
    params = tuple(
        ParamSpec(name, row.pop("default", None), choices=tuple(row.pop("choices", ())), **row)
        for name, row in tomllib.loads(files("ringrift_reversi").joinpath("params.toml").read_text("utf-8")).items()
    )

    def variants(self) -> Sequence[VariantSpec]:
        return tuple(
            VariantSpec(
                name=f"{board}_{players}p",
                players=players,
                actions=cells,
                cpu_seconds_per_game=seconds,
                baselines=_BASELINES,
                opening_plies=OPENING_PLIES,
                games_per_batch=GAMES_PER_BATCH,
                can_render=True,
                can_parse=True,
            )
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

    def write_npz(self, variant: str, source: Path, target: Path) -> None:
        """Write samples as a file of numpy's; what its arrays are stands in ``samples``."""
        from ringrift_reversi import samples

        with source.open("rb") as file:
            data = file.read(samples.SAMPLES_BYTES_MAX + 1)
        samples.write_npz(samples.unpack(data, variant), variant, target)

    def board(self, variant: str) -> "Position":
        from ringrift_reversi import terminal

        return terminal.begin(variant)

    def choose(
        self, variant: str, board: "Position", model: bytes | None, baseline: str | None, sims: int, seed: int
    ) -> int:
        from ringrift_reversi import terminal

        if model is None:
            return terminal.choose_by_baseline(board, str(baseline), seed)
        return terminal.choose_by_model(board, model, sims)
