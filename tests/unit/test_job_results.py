"""A job becomes the spec of a workload, and its result becomes events, or is refused."""

from typing import Any

import pytest

from ringrift.events import catalog, data, evaluation, model, node, selfplay, training, tuning
from ringrift.events.base import Event
from ringrift.jobs import (
    Distribute,
    Export,
    Import,
    Ingest,
    Job,
    Match,
    Play,
    Purpose,
    Rate,
    Sync,
    Train,
    Tune,
    Verify,
)
from ringrift.kernel.errors import JobFailed, SettingsError
from ringrift.kernel.settings import Policy
from ringrift.workload.api import STAGES, Artifact, Block, JobResult

V = "hex8_2p"
PLAY = Play(variant=V, model="m", games=100, seed=7)
EXPORT = Export(variant=V, batches=("b", "c"), seed=8)
TRAIN = Train(variant=V, generation=3, samples="s", parent="m", seed=9)
VERIFY = Verify(variant=V, model="m")
MATCH = Match(variant=V, candidate="c", champion="m", first=8, count=2, seed=10)
BASELINE = Match(
    variant=V, candidate="c", baseline="uct:200", first=8, count=2, seed=10, plies=12, purpose=Purpose.PROOF
)
IMPORT = Import(variant=V, file="f")
INGEST = Ingest(variant=V, file="f", history="k")
COUNTS = {"games": 60, "repeated": 5, "refused": 2, "other": 1, "errors": "row 3: it has no end"}
RATE = Rate(variant=V, tally="t")
CANARY = Match(
    variant=V, candidate="greedy", baseline="random", first=3, count=2, seed=12, node="n", purpose=Purpose.CANARY
)
TUNE = Tune(variant=V, vector=(1.0, -2.5), seed=11)
GAMES = Artifact(kind="games", blob="g", size=9, meta={"games": 60})
SAMPLES = Artifact(kind="samples", blob="t", size=9, meta={"samples": 1800, "games": 60})
MODEL = Artifact(kind="model", blob="n", size=9)
REPORT = Artifact(kind="report", blob="r", size=9)
BLOCKS = (Block(number=8, scores=(1.0, 0.5), ranks=(1.0, 0.5)), Block(number=9, scores=(0.0, 0.0)))


@pytest.mark.parametrize(
    ("job", "inputs", "params"),
    [
        (PLAY, {"model": ("m",)}, {"games": 100}),
        (EXPORT, {"batches": ("b", "c")}, {}),
        (TRAIN, {"samples": ("s",), "parent": ("m",)}, {"generation": 3}),
        (Train(variant=V, generation=0, seed=9), {"samples": (), "parent": ()}, {"generation": 0}),
        (VERIFY, {"model": ("m",)}, {}),
        (MATCH, {"candidate": ("c",), "champion": ("m",)}, {"first": 8, "count": 2}),
        (BASELINE, {"candidate": ("c",)}, {"first": 8, "count": 2, "champion": "uct:200", "opening_plies": 12}),
        (CANARY, {}, {"first": 3, "count": 2, "candidate": "greedy", "champion": "random"}),
        (TUNE, {}, {"vector": "1.0,-2.5"}),
        (IMPORT, {"file": ("f",)}, {}),
        (INGEST, {"file": ("f",), "history": ("k",)}, {"replay": True}),
    ],
    ids=["play", "export", "train", "first", "verify", "match", "baseline", "canary", "tune", "import", "ingest"],
)
def test_a_workload_gets_the_fields_of_the_job(job: Job, inputs: dict[str, Any], params: dict[str, Any]) -> None:
    """Stage, variant, seed, inputs and numbers of the job reach the workload, on top of the node's own parameters."""
    spec = job.to_spec("j", 2, {"visits": 32, "games": 1})

    assert (spec.job, spec.stage, spec.variant, spec.seed, spec.attempt) == ("j", job.kind(), V, job.seed, 2)
    assert spec.stage in STAGES
    assert spec.inputs == inputs
    assert spec.params == {"visits": 32, "games": 1} | params


@pytest.mark.parametrize(
    "job",
    [Sync(variant=V, blob="b", kind_of="games", source="n"), Distribute(variant=V, model="m")],
    ids=["sync", "all"],
)
def test_no_workload_moves_files(job: Job) -> None:
    """A node's own jobs are no workload's, and trying again would not help."""
    for call in (lambda: job.to_spec("j", 1, {}), lambda: job.to_events(JobResult(), "n", False)):
        with pytest.raises(JobFailed, match="are done by the node itself, not by a worker") as refused:
            call()
        assert not refused.value.retry


@pytest.mark.parametrize(
    ("job", "result", "event"),
    [
        (
            PLAY,
            JobResult(outputs=(REPORT, GAMES)),
            selfplay.BatchFinished(variant=V, batch="g", games=60, node="n", model="m", ephemeral=True),
        ),
        (
            EXPORT,
            JobResult(outputs=(SAMPLES,)),
            data.Exported(variant=V, samples="t", count=1800, batches=("b", "c"), node="n", job=EXPORT.key),
        ),
        (
            TRAIN,
            JobResult(outputs=(MODEL,), metrics={"loss": 0.5}),
            training.Finished(
                variant=V,
                model="n",
                generation=3,
                node="n",
                samples="s",
                parent="m",
                metrics={"loss": 0.5},
                job=TRAIN.key,
            ),
        ),
        (VERIFY, JobResult(), model.Verified(variant=V, model="m", node="n")),
        (
            MATCH,
            JobResult(blocks=BLOCKS, settings="sims=4"),
            evaluation.BlocksPlayed(
                variant=V,
                candidate="c",
                champion="m",
                node="n",
                blocks=(
                    evaluation.Block(number=8, scores=(1.0, 0.5), ranks=(1.0, 0.5)),
                    evaluation.Block(number=9, scores=(0.0, 0.0)),
                ),
                settings="sims=4",
                seed=MATCH.seed,
            ),
        ),
        (
            CANARY,
            JobResult(blocks=(Block(number=3, scores=(1.0, 0.5)), Block(number=4, scores=(0.0, 0.0)))),
            node.CanaryPlayed(
                variant=V,
                seed=12,
                node="n",
                blocks=(
                    evaluation.Block(number=3, scores=(1.0, 0.5)),
                    evaluation.Block(number=4, scores=(0.0, 0.0)),
                ),
            ),
        ),
        (IMPORT, JobResult(outputs=(MODEL,)), model.Imported(variant=V, model="n", source="f", node="n")),
        (
            RATE,
            JobResult(outputs=(Artifact("report", "r", 1, {"summary": '{"players":2,"blocks":3}'}),)),
            evaluation.Rated(
                variant=V, report="r", tally="t", summary=evaluation.Summary(players=2, blocks=3), node="n"
            ),
        ),
        (
            TUNE,
            JobResult(metrics={"fitness": 0.5}),
            tuning.TrialFinished(variant=V, vector=(1.0, -2.5), fitness=0.5, node="n", job=TUNE.key),
        ),
    ],
    ids=["play", "export", "train", "verify", "match", "canary", "import", "rate", "tune"],
)
def test_a_result_becomes_its_event(job: Job, result: JobResult, event: Event) -> None:
    """Each stage's result is one event, which can be published and ends its job."""
    assert job.to_events(result, "n", True) == (event,)
    assert catalog.decode(event.name(), catalog.encode(event)) == event


def test_a_file_of_games_becomes_its_batches_and_then_one_event() -> None:
    """Batches say from which file they are; the last event says what became of the file, and ends the job."""
    more, report = Artifact("games", "h", 9, {"games": 40}), Artifact("report", "r", 9, COUNTS)

    *batches, last = Ingest(variant=V, file="f", replay=False).to_events(JobResult((GAMES, more, report)), "n", True)

    shared: dict[str, Any] = {"variant": V, "node": "n", "source": "f"}
    facts = {"model": "", "ephemeral": True, **shared}
    assert batches == [
        selfplay.BatchFinished(batch=blob, games=games, **facts) for blob, games in (("g", 60), ("h", 40))
    ]
    counts: dict[str, Any] = {name: COUNTS[name] for name in ("repeated", "refused", "other", "errors")}
    assert last == data.Imported(batches=("g", "h"), games=100, pending=True, **counts, **shared)
    assert INGEST.is_ended_by(last)
    assert not Ingest(variant=V, file="g").is_ended_by(last)


@pytest.mark.parametrize(
    "meta", [{}, COUNTS | {"repeated": -1}, COUNTS | {"refused": True}], ids=["none", "below", "bool"]
)
def test_a_report_without_counts_is_no_result(meta: dict[str, Any]) -> None:
    """What a workload reports is checked before anything counts."""
    with pytest.raises(JobFailed, match="a whole number above -1 is needed"):
        INGEST.to_events(JobResult((GAMES, Artifact("report", "r", 9, meta))), "n", False)


@pytest.mark.parametrize("job", [EXPORT, TRAIN, VERIFY, MATCH, BASELINE, IMPORT, TUNE], ids=lambda job: job.key)
def test_a_job_has_the_event_that_ends_it(job: Job) -> None:
    """It is the event of its own result, and of no other job's."""
    outputs, metrics = (SAMPLES, MODEL), {"fitness": 0.5}
    result = JobResult(outputs=outputs, metrics=metrics, blocks=BLOCKS)
    [event] = job.to_events(result, "n", False)
    others = [other for other in (EXPORT, TRAIN, VERIFY, MATCH, BASELINE, IMPORT, TUNE) if other is not job]

    assert job.is_ended_by(event)
    assert not any(other.is_ended_by(event) for other in others)


def test_a_baseline_is_named_as_the_opponent() -> None:
    """It has no blob."""
    [event] = BASELINE.to_events(JobResult(blocks=BLOCKS), "n", False)

    assert (event.candidate, event.champion) == ("c", "uct:200")


def test_batches_that_were_left_out_are_named() -> None:
    """An export names the batches that it used and those that it refused; others it cannot name."""
    result = JobResult(outputs=(SAMPLES,), refused=("c", "never asked for"))

    [event] = EXPORT.to_events(result, "n", False)

    assert (event.batches, event.refused) == (("b",), ("c",))


@pytest.mark.parametrize("job", [PLAY, EXPORT, TRAIN], ids=["play", "export", "train"])
@pytest.mark.parametrize(
    ("outputs", "count"),
    [((), 0), ((REPORT,), 0), ((GAMES, GAMES, SAMPLES, SAMPLES, MODEL, MODEL), 2)],
    ids=["none", "other", "two"],
)
def test_a_result_has_exactly_one_artifact_of_its_kind(job: Job, outputs: tuple[Artifact, ...], count: int) -> None:
    """No artifact, another kind, or two of them are refused."""
    with pytest.raises(JobFailed, match=f"the workload made {count} artifacts of kind .*, not 1"):
        job.to_events(JobResult(outputs=outputs), "n", False)


@pytest.mark.parametrize("number", [0, -1, True, False, 60.0, "60", None])
@pytest.mark.parametrize(("job", "kind", "key"), [(PLAY, "games", "games"), (EXPORT, "samples", "samples")])
def test_games_and_samples_are_counted_in_whole_numbers(job: Job, kind: Any, key: str, number: Any) -> None:
    """Nothing, less than nothing, halves, truth values and texts are refused, and the blob is named."""
    artifact = Artifact(kind=kind, blob="g", size=9, meta={key: number})

    with pytest.raises(JobFailed, match="a whole number above 0 is needed") as refused:
        job.to_events(JobResult(outputs=(artifact,)), "n", False)

    assert refused.value.blob == "g"


def test_a_missing_count_is_refused() -> None:
    """A batch must have its number of games."""
    bare = Artifact(kind="games", blob="g", size=9)

    with pytest.raises(JobFailed, match="games = None"):
        PLAY.to_events(JobResult(outputs=(bare,)), "n", False)


@pytest.mark.parametrize(
    "numbers", [(), (8,), (8, 9, 10), (9, 8), (0, 1), (8, 8), (7, 8), (8, 10)], ids=lambda numbers: str(numbers)
)
def test_exactly_the_requested_blocks_count(numbers: tuple[int, ...]) -> None:
    """Too few, too many, doubled, shifted or shuffled blocks are no evidence."""
    blocks = tuple(Block(number=number, scores=(1.0, 0.0)) for number in numbers)

    with pytest.raises(JobFailed, match=r"blocks 8 … 9 are needed"):
        MATCH.to_events(JobResult(blocks=blocks), "n", False)


@pytest.mark.parametrize("scores", [(), (1.1, 0.0), (-0.1, 0.0), (float("nan"), 0.0), (0.0, float("inf"))], ids=str)
def test_a_score_lies_between_0_and_1(scores: tuple[float, ...]) -> None:
    """Scores outside the range, NaN, and blocks without a score are no evidence."""
    blocks = (BLOCKS[0], Block(number=9, scores=scores))

    with pytest.raises(JobFailed, match="block 9 needs 2 scores from 0 to 1"):
        MATCH.to_events(JobResult(blocks=blocks), "n", False)


@pytest.mark.parametrize("scores", [(1.0,), (1.0, 0.0, 0.0)], ids=["one", "three"])
def test_a_block_is_played_from_every_seat(scores: tuple[float, ...]) -> None:
    """A two-player block has two scores: one seat alone would measure the seat and not the candidate."""
    blocks = (BLOCKS[0], Block(number=9, scores=scores))

    with pytest.raises(JobFailed):
        MATCH.to_events(JobResult(blocks=blocks), "n", False)


def test_the_largest_match_that_settings_allow_can_be_published() -> None:
    """A job of as many blocks as a policy may request, with four players, still fits into one event."""
    largest = largest_allowed("blocks_per_job")
    match = Match(variant="hex8_4p", candidate="c" * 64, champion="m" * 64, first=99_000, count=largest)
    blocks = tuple(Block(number=99_000 + n, scores=(1 / 3, 2 / 3, 1 / 3, 1 / 6)) for n in range(largest))

    [event] = match.to_events(JobResult(blocks=blocks), "n" * 64, False)

    assert len(catalog.encode(event)) <= 64 * 1024


def largest_allowed(field: str) -> int:
    """The largest value that the policy takes for *field*."""
    low, high = 1, 1_000_000
    while low < high:
        middle = (low + high + 1) // 2
        try:
            Policy(**{field: middle})
            low = middle
        except SettingsError:
            high = middle - 1
    return low
