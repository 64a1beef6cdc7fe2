"""Reversi as a workload: it conforms, repeats itself to the bit, and can be killed at any time."""

import subprocess
import sys
from pathlib import Path

import pytest

from ringrift.workload.api import JobContext, JobResult, JobSpec, Refused, Scalar, VariantSpec, Workload
from ringrift.workload.conformance import check
from ringrift.workload.registry import Registry
from ringrift.workload.scratch import Killed, Scratch
from ringrift_reversi import net, records, stages
from ringrift_reversi.evaluate import DTYPES
from ringrift_reversi.topology import VARIANTS, topology
from ringrift_reversi.workload import Reversi


class Quick:
    """A clock on which everything takes a second."""

    def __init__(self) -> None:
        self._now = 0.0

    def now(self) -> float:
        return self._now

    def tick(self) -> float:
        self._now += 1.0
        return self._now


class Small(Reversi):
    """Reversi with few simulations and steps, and a clock that makes it keep checkpoints all the time."""

    def run(self, job: JobSpec, ctx: JobContext) -> JobResult:
        small: dict[str, Scalar] = {"sims": 4, "dtype": "float32", "slots": 5}
        if job.stage == "train":
            small |= {"steps": 12, "batch": 32}
        job = JobSpec(job.job, job.stage, job.variant, job.seed, job.inputs, {**small, **job.params}, job.attempt)
        return stages.run(job, ctx, Quick())


@pytest.mark.timeout(300)  # it runs fifty jobs, each with its own search
@pytest.mark.parametrize("variant", ["square8_2p", "hex8_3p"])
def test_reversi_conforms(variant: str, tmp_path: Path) -> None:
    """The suite for plug-ins reports no defect."""
    assert check(Small(), variant, tmp_path) == []


def test_reversi_is_bundled_and_offers_twelve_variants() -> None:
    """A run from the source has it, before the fake, and its list agrees with the boards."""
    registry = Registry.load({})
    reversi = registry.get("reversi")

    assert isinstance(reversi, Workload)
    assert list(registry.makers)[-1] == "fake"
    assert {spec.name: (spec.players, spec.actions) for spec in reversi.variants()} == {
        name: (players, topology(board).cells) for name, (board, players) in VARIANTS.items()
    }
    assert all(isinstance(spec, VariantSpec) and spec.cpu_seconds_per_game > 0 for spec in reversi.variants())


def test_listing_variants_loads_nothing_heavy() -> None:
    """The process that runs the loop never imports numpy, numba or torch."""
    code = (
        "import sys; from ringrift.workload.registry import Registry; registry = Registry.load({});"
        "assert [name for name in registry.makers if registry.variants_of(name)];"
        "sys.exit(any(name in sys.modules for name in ('numpy', 'numba', 'torch')))"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def born(folder: Path, variant: str = "square8_2p") -> str:
    """The blob of a network."""
    return Scratch(folder).publish("model", net.save(net.new_net(variant, 1), {}), {}).blob


def play_job(model: str, variant: str = "square8_2p", **params: Scalar) -> JobSpec:
    """Play a few games quickly."""
    usual: dict[str, Scalar] = {"games": 9, "sims": 4, "slots": 4, "dtype": "float32"}
    return JobSpec("job", "play", variant, 11, inputs={"model": (model,)}, params={**usual, **params})


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_same_job_twice_makes_the_same_blob(dtype: str, tmp_path: Path) -> None:
    """This holds for every number format; another seed makes another blob."""
    job = play_job(born(tmp_path), dtype=dtype)

    first, second = (stages.run(job, Scratch(tmp_path)).outputs[0] for _ in range(2))
    other = stages.run(JobSpec("job", "play", job.variant, 12, job.inputs, job.params), Scratch(tmp_path))

    assert first.blob == second.blob
    assert other.outputs[0].blob != first.blob


def test_games_do_not_depend_on_the_slots(tmp_path: Path) -> None:
    """However many are played beside each other, every game is the same."""
    model = born(tmp_path)

    blobs = {stages.run(play_job(model, slots=slots), Scratch(tmp_path)).outputs[0].blob for slots in (1, 4, 9)}

    assert len(blobs) == 1


@pytest.mark.parametrize("params", [{}, {"full_share": 0.5, "fast_sims": 2, "random_plies": 3}])
def test_a_player_that_was_killed_again_and_again_makes_the_same_blob(
    params: dict[str, Scalar], tmp_path: Path
) -> None:
    """Games that had ended and games under way are taken up where they were."""
    job = play_job(born(tmp_path, "hex8_3p"), "hex8_3p", **params)
    whole = stages.run(job, Scratch(tmp_path))

    ctx, deaths = Scratch(tmp_path), 0
    while True:
        try:
            result = stages.run(job, ctx.kill_after(2), Quick())
            break
        except Killed:
            ctx, deaths = ctx.again(), deaths + 1

    assert deaths > 3
    assert result.outputs[0].blob == whole.outputs[0].blob


def test_a_stopped_player_gives_whole_games(tmp_path: Path) -> None:
    """Stopped at once it returns the one required game; stopped later, those that have ended."""
    job = play_job(born(tmp_path))
    ctx = Scratch(tmp_path)

    at_once = stages.run(job, ctx.stop_after(0))

    games, _ = records.unpack(ctx.open_input(at_once.outputs[0].blob).read_bytes(), job.variant)
    assert at_once.partial
    assert len(games) == at_once.outputs[0].meta["games"] == 1


def test_no_game_is_too_short_for_training(tmp_path: Path) -> None:
    """Openings that would end the game are cut: exactly the requested number of games."""
    result = stages.run(play_job(born(tmp_path, "hex8_4p"), "hex8_4p", random_plies=64, games=20), Scratch(tmp_path))

    assert result.outputs[0].meta["games"] == 20


@pytest.mark.parametrize(
    ("params", "complaint"),
    [
        ({"games": 0}, "games from 1"),
        ({"games": True}, "games from 1"),
        ({"sims": 10**9}, "sims from 1"),
        ({"dtype": "float64"}, "dtype as one of"),
        ({"full_share": 0}, "full_share from"),
        ({"full_share": "half"}, "full_share from"),
        ({"threads": -1}, "threads from"),
    ],
)
def test_nonsense_is_refused_by_name(params: dict[str, Scalar], complaint: str, tmp_path: Path) -> None:
    """Params out of bounds never start a job."""
    with pytest.raises(Refused, match=complaint):
        Reversi().run(play_job(born(tmp_path), **params), Scratch(tmp_path))


def test_unknown_names_are_refused(tmp_path: Path) -> None:
    """Unknown variants, stages and inputs are errors."""
    ctx = Scratch(tmp_path)
    for job, complaint in (
        (JobSpec("job", "play", "chess_2p", 0), "does not play"),
        (JobSpec("job", "dance", "hex8_2p", 0), "has no stage"),
        (JobSpec("job", "play", "hex8_2p", 0, params={"games": 1}), "exactly one model"),
        (JobSpec("job", "verify", "hex8_2p", 0, inputs={"model": (born(tmp_path),)}), "plays 'square8_2p'"),
    ):
        with pytest.raises(Refused, match=complaint):
            Reversi().run(job, ctx)


def test_a_node_measures_the_job_params_once() -> None:
    """The result has a supported dtype and a number of threads."""
    params = Reversi().measured_params()

    assert params["dtype"] in DTYPES
    assert params["threads"] == 1


def test_a_vector_is_tried(tmp_path: Path) -> None:
    """The fitness of a candidate is a metric, the same each time; nonsense is refused."""
    good, idle = ("8,-4,-4,0.4,0.6,0.4", "0,0,0,0,0,0")

    def fitness(vector: str) -> float:
        job = JobSpec("job", "tune", "square8_2p", 3, params={"vector": vector, "openings": 20})
        return Reversi().run(job, Scratch(tmp_path)).metrics["fitness"]

    assert fitness(good) == fitness(good) > fitness(idle)
    for nonsense in ("", "1,2", "1,2,3,4,5,nan", "a"):
        with pytest.raises(Refused, match="tune needs a vector"):
            fitness(nonsense)
