"""Jobs have a key and blobs, and none is enqueued that no worker could read."""

import math

import msgspec
import pytest

from ringrift import jobs
from ringrift.jobs import (
    GAME_KINDS,
    JOB_KINDS,
    JOBS,
    NODE_KINDS,
    Distribute,
    Export,
    Import,
    Ingest,
    Job,
    JobFilter,
    Match,
    Play,
    Purpose,
    Rate,
    Sync,
    Train,
    Tune,
    Verify,
)
from ringrift.kernel.errors import InvalidPayload, InvalidWork, UnknownName
from ringrift.workload.api import STAGES

ROWS: tuple[tuple[Job, str, tuple[str, ...]], ...] = (
    (Play(variant="hex8_2p", model="m", games=100, seed=7), "play:hex8_2p:7", ("m",)),
    (Sync(variant="hex8_2p", blob="b", kind_of="games", source="n", priority=90), "sync:hex8_2p:b", ()),
    (Export(variant="hex8_2p", batches=("b", "c"), seed=8), "export:hex8_2p:8", ("b", "c")),
    (Train(variant="hex8_2p", generation=1, samples="s", parent="m", seed=9), "train:hex8_2p:9", ("s", "m")),
    (Verify(variant="hex8_2p", model="m", node="n"), "verify:hex8_2p:m", ("m",)),
    (
        Match(variant="hex8_2p", candidate="c", champion="m", first=8, count=4, seed=2**63 - 1),
        "match:promotion:hex8_2p:c:m:8",
        ("c", "m"),
    ),
    (Tune(variant="hex8_2p", vector=(0.5, -1e-9)), "tune:hex8_2p:0:0.5,-1e-09", ()),
    (Distribute(variant="hex8_2p", model="m", isolate=True), "distribute:hex8_2p:m", ()),
    (Rate(variant="hex8_2p", tally="t"), "rate:hex8_2p", ("t",)),
    (Import(variant="hex8_2p", file="f"), "import:hex8_2p:f", ("f",)),
    (Ingest(variant="hex8_2p", file="f", history="k"), "ingest:hex8_2p", ("f", "k")),
)
"""An example of every job, its key and its blobs."""
EXAMPLES = tuple(job for job, _, _ in ROWS)


def test_there_is_an_example_of_every_job() -> None:
    """The examples of this file are all jobs there are; each that a worker runs has the events of its result."""
    assert tuple(type(job) for job in EXAMPLES) == JOBS
    assert all((job.to_events is Job.to_events) == (job.runs_in == "node") for job in JOBS)


@pytest.mark.parametrize("job", EXAMPLES, ids=lambda job: job.kind())
def test_a_job_survives_the_queue(job: Job) -> None:
    """A worker reads exactly the enqueued job."""
    assert jobs.decode(job.kind(), jobs.encode(job)) == job


@pytest.mark.parametrize(("job", "key"), [row[:2] for row in ROWS], ids=lambda value: str(value)[:12])
def test_a_key_identifies_the_purpose_of_a_job(job: Job, key: str) -> None:
    """Two jobs for the same purpose have the same key, and so only one of them is alive."""
    assert job.key == key


@pytest.mark.parametrize(("job", "blobs"), [row[::2] for row in ROWS], ids=lambda value: str(value)[:12])
def test_a_job_names_its_inputs(job: Job, blobs: tuple[str, ...]) -> None:
    """Inputs are fetched before the work begins; a file job fetches them itself."""
    assert job.blobs == blobs


@pytest.mark.parametrize(
    ("job", "key", "blobs"),
    [
        (
            Match(variant="hex8_2p", candidate="c", champion="m", first=8, count=4, purpose=Purpose.PROOF),
            "match:proof:hex8_2p:c:m:8",
            ("c", "m"),
        ),
        (
            Match(variant="hex8_2p", candidate="c", baseline="uct:200", first=8, count=4, purpose=Purpose.PROOF),
            "match:proof:hex8_2p:c:uct:200:8",
            ("c",),
        ),
        (
            Match(variant="hex8_2p", candidate="c", champion="m", first=8, count=4, purpose=Purpose.REVIEW),
            "match:review:hex8_2p:c:m:8",
            ("c", "m"),
        ),
        (
            Match(
                variant="hex8_2p",
                candidate="greedy",
                baseline="random",
                first=3,
                count=4,
                seed=7,
                node="n1",
                purpose=Purpose.CANARY,
            ),
            "match:canary:hex8_2p:n1:7:3",
            (),
        ),
    ],
    ids=["proof", "baseline", "review", "canary"],
)
def test_a_match_without_promotion_has_a_key_of_its_own(job: Match, key: str, blobs: tuple[str, ...]) -> None:
    """The gate neither waits for it nor cancels it, and a baseline needs no blob."""
    assert job.key == key
    assert not JobFilter(variant="hex8_2p", purpose=Purpose.PROMOTION, candidate="c").matches(job)
    assert job.blobs == blobs
    assert jobs.decode(job.kind(), jobs.encode(job)) == job


def test_generation_0_needs_no_inputs() -> None:
    """A first model comes from nothing."""
    assert Train(variant="hex8_2p", generation=0).blobs == ()


def test_a_filter_selects_by_job_fields() -> None:
    """Every field that is set must be equal; other matches, whose names only begin alike, are not selected."""
    match = {"variant": "hex8_2p", "candidate": "c", "champion": "m", "first": 0, "count": 4}
    ours, alike = Match(**match), Match(**match | {"candidate": "cc"})
    review, pinned = Match(**match | {"purpose": Purpose.REVIEW}), Play(variant="hex8_2p", model="c", games=1, node="n")
    everything = (ours, alike, review, pinned)

    def selected(**fields: str) -> list[Job]:
        return [job for job in everything if JobFilter(**fields).matches(job)]

    assert selected() == list(everything)
    assert selected(purpose=Purpose.PROMOTION, candidate="c") == [ours]
    assert selected(candidate="c", opponent="m") == [ours, review]
    assert selected(node="n") == selected(key=pinned.key) == [pinned]
    assert selected(variant="hex9_2p") == []


def test_class_marks_determine_where_a_job_runs() -> None:
    """The kinds of workload jobs are its stages; the sets of kinds are derived from the classes."""
    assert len(JOB_KINDS) == len(JOBS)
    assert {job.kind() for job in JOBS if job.runs_in == "workload"} == set(STAGES)
    assert {job.kind() for job in JOBS if job.runs_in == "worker"} == {"rate"}
    assert ({"sync", "distribute"}, {"play", "match"}) == (NODE_KINDS, GAME_KINDS)


@pytest.mark.parametrize("priority", [-1, 101, True, False, 40.0, math.nan, None, "40"])
def test_a_priority_is_a_whole_number_from_0_to_100(priority: object) -> None:
    """Anything else is refused with field, value and range, before anything is written."""
    job = msgspec.structs.replace(EXAMPLES[0], priority=priority)

    with pytest.raises(InvalidWork, match=r"priority = .*0 … 100") as refused:
        jobs.encode(job)

    assert (refused.value.field, refused.value.limit) == ("priority", "0 … 100, whole")


@pytest.mark.parametrize("priority", [0, 40, 100])
def test_priority_bounds_are_inclusive(priority: int) -> None:
    """0 and 100 are priorities."""
    jobs.encode(msgspec.structs.replace(EXAMPLES[0], priority=priority))


@pytest.mark.parametrize("seed", [-1, 2**63, True, 1.0, None])
def test_a_seed_is_a_whole_number_of_63_bits(seed: object) -> None:
    """A seed that a workload or the store cannot hold is refused."""
    with pytest.raises(InvalidWork, match="seed = "):
        jobs.encode(msgspec.structs.replace(EXAMPLES[0], seed=seed))


@pytest.mark.parametrize("vector", [(), (math.nan,), (1.0, math.inf), (0.0,) * 1001])
def test_a_vector_is_some_finite_numbers(vector: tuple[float, ...]) -> None:
    """Nothing, too much and what is no number is refused."""
    with pytest.raises(InvalidWork, match="vector = "):
        jobs.encode(Tune(variant="hex8_2p", vector=vector))


@pytest.mark.parametrize(("job", "field"), [(EXAMPLES[0], "games"), (EXAMPLES[5], "count")], ids=["play", "match"])
@pytest.mark.parametrize("number", [0, -1, True, 1.5, math.nan])
def test_counts_of_a_job_are_whole_numbers(job: Job, field: str, number: object) -> None:
    """A job for no games, half a game or a truth value of games is refused: no worker could read it."""
    with pytest.raises(InvalidWork) as refused:
        jobs.encode(msgspec.structs.replace(job, **{field: number}))

    assert refused.value.field == field


@pytest.mark.parametrize(
    ("job", "field"), [(EXAMPLES[5], "first"), (EXAMPLES[3], "generation")], ids=["match", "train"]
)
@pytest.mark.parametrize("number", [-1, True, 0.5])
def test_a_job_counts_from_0_in_whole_numbers(job: Job, field: str, number: object) -> None:
    """The first block of a match and the generation of a model are whole numbers from 0 on."""
    with pytest.raises(InvalidWork) as refused:
        jobs.encode(msgspec.structs.replace(job, **{field: number}))

    assert refused.value.field == field


def test_an_unknown_kind_lists_the_valid_ones() -> None:
    """A queue of a later version is unknown, not broken."""
    with pytest.raises(UnknownName) as unknown:
        jobs.decode("dance", b"{}")

    assert (unknown.value.kind, unknown.value.name) == ("job", "dance")
    assert unknown.value.names == tuple(sorted(job.kind() for job in JOBS))


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"type":"play"}', b'{"type":"train","variant":"v","generation":0}', b"[]"]
)
def test_a_body_that_is_no_such_job_is_refused(body: bytes) -> None:
    """Bytes of another job, or of none, are an invalid payload."""
    with pytest.raises(InvalidPayload):
        jobs.decode("play", body)


def test_a_job_of_an_earlier_version_still_decodes() -> None:
    """Missing later fields take their defaults, unknown ones are ignored."""
    body = b'{"type":"play","variant":"hex8_2p","seed":7,"model":"m","games":3,"later":{"x":1}}'

    assert jobs.decode("play", body) == Play(variant="hex8_2p", model="m", games=3, seed=7)


def test_matches_for_different_purposes_have_different_keys() -> None:
    """A match that an operator or a proof asks for is never taken for one that the gate waits for."""
    match = Match(variant="hex8_2p", candidate="c", champion="m", first=0, count=4, node="n")

    keys = {msgspec.structs.replace(match, purpose=purpose).key for purpose in Purpose}

    assert len(keys) == len(Purpose)
