"""Jobs say what they are for, and none is asked for that no worker could read."""

import math

import msgspec
import pytest

from ringrift import jobs
from ringrift.jobs import (
    CHILD_KINDS,
    JOBS,
    NODE_KINDS,
    WORKLOAD_KINDS,
    Distribute,
    Export,
    Import,
    Job,
    Match,
    Play,
    Rate,
    Sync,
    Train,
    Tune,
    Verify,
)
from ringrift.kernel.errors import InvalidPayload, InvalidWork, UnknownName
from ringrift.workload.api import STAGES

EXAMPLES: tuple[Job, ...] = (
    Play(variant="hex8_2p", model="m", games=100, seed=7),
    Sync(variant="hex8_2p", blob="b", kind_of="games", source="n", priority=90),
    Export(variant="hex8_2p", batches=("b", "c"), seed=8),
    Train(variant="hex8_2p", generation=1, samples="s", parent="m", seed=9),
    Verify(variant="hex8_2p", model="m", node="n"),
    Match(variant="hex8_2p", candidate="c", champion="m", first=8, count=4, seed=2**63 - 1),
    Tune(variant="hex8_2p", vector=(0.5, -1e-9)),
    Distribute(variant="hex8_2p", model="m", isolate=True),
    Import(variant="hex8_2p", file="f"),
    Rate(variant="hex8_2p", tally="t"),
)
KEYS = (
    "play:hex8_2p:7",
    "sync:hex8_2p:b",
    "export:hex8_2p:8",
    "train:hex8_2p:9",
    "verify:hex8_2p:m",
    "match:hex8_2p:c:8",
    "tune:hex8_2p:0:0.5,-1e-09",
    "distribute:hex8_2p:m",
    "import:hex8_2p:f",
    "rate:hex8_2p",
)
BLOBS = (("m",), (), ("b", "c"), ("s", "m"), ("m",), ("c", "m"), (), (), ("f",), ("t",))


def test_there_is_an_example_of_every_job() -> None:
    """The examples of this file are all jobs there are, in their order."""
    assert tuple(type(job) for job in EXAMPLES) == JOBS


@pytest.mark.parametrize("job", EXAMPLES, ids=lambda job: job.kind())
def test_a_job_survives_the_queue(job: Job) -> None:
    """What is enqueued is what a worker reads."""
    assert jobs.decode(job.kind(), jobs.encode(job)) == job


@pytest.mark.parametrize(("job", "key"), list(zip(EXAMPLES, KEYS, strict=True)), ids=KEYS)
def test_a_key_says_what_the_job_is_for(job: Job, key: str) -> None:
    """Two jobs for the same thing have the same key, and so only one of them is alive."""
    assert job.key == key


@pytest.mark.parametrize(("job", "blobs"), list(zip(EXAMPLES, BLOBS, strict=True)), ids=KEYS)
def test_a_job_names_what_must_be_there_before_it_starts(job: Job, blobs: tuple[str, ...]) -> None:
    """Inputs are fetched before the work begins; who moves files fetches them himself."""
    assert job.blobs == blobs


@pytest.mark.parametrize(
    ("job", "key", "blobs"),
    [
        (
            Match(variant="hex8_2p", candidate="c", champion="m", first=8, count=4, purpose="proof"),
            "proof:hex8_2p:c:m:8",
            ("c", "m"),
        ),
        (
            Match(variant="hex8_2p", candidate="c", baseline="uct:200", first=8, count=4),
            "proof:hex8_2p:c:uct:200:8",
            ("c",),
        ),
        (
            Match(variant="hex8_2p", candidate="c", champion="m", first=8, count=4, purpose="review"),
            "review:hex8_2p:c:m:8",
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
                purpose="canary",
            ),
            "canary:n1:hex8_2p:7:3",
            (),
        ),
    ],
    ids=["proof", "baseline", "review", "canary"],
)
def test_a_match_that_promotes_nobody_has_a_key_of_its_own(job: Match, key: str, blobs: tuple[str, ...]) -> None:
    """So the gate neither waits for it nor cancels it, and a baseline needs no blob."""
    assert job.key == key
    assert not job.key.startswith(Match.prefix("hex8_2p", "c"))
    assert job.blobs == blobs
    assert jobs.decode(job.kind(), jobs.encode(job)) == job


def test_generation_0_needs_no_inputs() -> None:
    """A first model comes from nothing."""
    assert Train(variant="hex8_2p", generation=0).blobs == ()


def test_the_jobs_of_one_match_share_the_beginning_of_their_keys() -> None:
    """A whole match can be cancelled by that beginning, and no other match with it."""
    prefix = Match.prefix("hex8_2p", "c")
    ours = Match(variant="hex8_2p", candidate="c", champion="m", first=0, count=4)
    others = Match(variant="hex8_2p", candidate="cc", champion="m", first=0, count=4)

    assert ours.key.startswith(prefix)
    assert not others.key.startswith(prefix)


def test_every_kind_is_done_by_somebody() -> None:
    """Each kind of job is a workload's or a node's own, never both; a workload's kinds are its stages."""
    kinds = [job.kind() for job in JOBS]

    assert len(set(kinds)) == len(kinds)
    assert set(kinds) == WORKLOAD_KINDS | NODE_KINDS | CHILD_KINDS
    assert not WORKLOAD_KINDS & NODE_KINDS
    assert not CHILD_KINDS & (WORKLOAD_KINDS | NODE_KINDS)
    assert set(STAGES) == WORKLOAD_KINDS


@pytest.mark.parametrize("priority", [-1, 101, True, False, 40.0, math.nan, None, "40"])
def test_a_priority_is_a_whole_number_from_0_to_100(priority: object) -> None:
    """Anything else is refused with field, value and range, before anything is written."""
    job = msgspec.structs.replace(EXAMPLES[0], priority=priority)

    with pytest.raises(InvalidWork, match=r"priority = .*0 … 100") as refused:
        jobs.encode(job)

    assert (refused.value.field, refused.value.limit) == ("priority", "0 … 100, whole")


@pytest.mark.parametrize("priority", [0, 40, 100])
def test_the_edges_of_priority_belong_to_it(priority: int) -> None:
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
def test_a_job_asks_for_a_whole_number_of_things(job: Job, field: str, number: object) -> None:
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


def test_an_unknown_kind_is_named_with_the_known_ones() -> None:
    """A queue of a later version is unknown, not broken."""
    with pytest.raises(UnknownName) as unknown:
        jobs.decode("dance", b"{}")

    assert (unknown.value.kind, unknown.value.name) == ("job", "dance")
    assert unknown.value.known == tuple(sorted(job.kind() for job in JOBS))


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"type":"play"}', b'{"type":"train","variant":"v","generation":0}', b"[]"]
)
def test_a_body_that_is_no_such_job_is_refused(body: bytes) -> None:
    """Bytes of another job, or of none, are an invalid payload."""
    with pytest.raises(InvalidPayload):
        jobs.decode("play", body)


def test_a_job_of_an_earlier_version_still_decodes() -> None:
    """Missing later fields take their defaults, unknown ones are passed over."""
    body = b'{"type":"play","variant":"hex8_2p","seed":7,"model":"m","games":3,"later":{"x":1}}'

    assert jobs.decode("play", body) == Play(variant="hex8_2p", model="m", games=3, seed=7)
