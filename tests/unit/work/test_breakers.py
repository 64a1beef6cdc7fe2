"""Rules of the stored breakers: one bad node decides for itself alone, and a half-open breaker lets one job through."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringrift.kernel.breaker import BreakerState
from ringrift.kernel.settings import BreakerSettings
from ringrift.store.ports import JobRow
from ringrift.work import breakers
from ringrift.work.breakers import JobEnd, StoredBreaker, _settle, admit

LIMITS = BreakerSettings(node_failures_max=3, stage_failures_max=4, workload_failures_max=3, reset_seconds=9.0)
KINDS = ("play", "train", "sync", "rate")


def end(job: str = "j", node: str = "n1", error: str | None = "exit 1", cause: str = "child_died") -> JobEnd:
    """The end of a job; by default its worker died."""
    return JobEnd(job=job, kind="play", node=node, error=error, cause=cause)


def after(subject: str, *ends: JobEnd, is_alone: bool = False) -> StoredBreaker:
    """The breaker of *subject* after these *ends*."""
    breaker = StoredBreaker(subject=subject)
    for job_end in ends:
        breaker = _settle(breaker, job_end, LIMITS, is_alone)
    return breaker


def stored(subject: str, state: str, *trials: str) -> dict[str, StoredBreaker]:
    """One stored breaker, by its subject."""
    facts = {"failures": 3, "opened": 1, "error": "exit 1", "seconds": 9.0}
    tries = len(trials)
    return {subject: StoredBreaker(subject=subject, state=BreakerState(state), trials=trials, tries=tries, **facts)}


def row(id: str, holder: str) -> JobRow:
    """A claimed job."""
    texts = {"kind": "play", "variant": "v", "key": id, "body": b"", "state": "claimed", "node": None, "error": None}
    numbers = dict.fromkeys(("priority", "attempts", "fence", "renewals"), 1)
    return JobRow(id=id, holder=holder, seconds=1.0, pause=0.0, progress=0.0, time=0.0, **texts, **numbers)


def test_a_job_belongs_to_its_stage_its_node_and_its_workload() -> None:
    """Jobs that the node does without a worker say nothing about the node's workers, our own code nothing about the
    workload."""
    assert set(breakers._subjects_of("play", "n1", "fake")) == {"stage:selfplay", "node:n1", "workload:fake"}
    assert set(breakers._subjects_of("rate", "n1", "fake")) == {"stage:evaluate", "node:n1"}
    assert set(breakers._subjects_of("sync", "n1", "fake")) == {"stage:sync"}


@pytest.mark.parametrize("subject", ["stage:selfplay", "workload:fake"])
def test_one_node_never_opens_the_breaker_of_a_stage_or_a_workload(subject: str) -> None:
    """However often it fails while another node does such jobs; with a failure of a second node it opens."""
    many = [end(f"j{number}") for number in range(50)]

    assert after(subject, *many).state is BreakerState.CLOSED
    assert after(subject, *many, end("k", node="n2")).state is BreakerState.OPEN
    assert after(subject, *many, is_alone=True).state is BreakerState.OPEN


def test_the_breaker_of_a_node_counts_in_a_row() -> None:
    """Three failed jobs in a row open it; a success in between begins anew."""
    first, second, third = end("a"), end("b"), end("c")

    assert after("node:n1", first, second).state is BreakerState.CLOSED
    assert after("node:n1", first, second, third).state is BreakerState.OPEN
    assert after("node:n1", first, second, end("d", error=None), third, first).state is BreakerState.CLOSED


@pytest.mark.parametrize("subject", ["node:n1", "stage:selfplay", "workload:fake"])
def test_one_bad_job_opens_nothing(subject: str) -> None:
    """However often it is tried; but each worker that does not even start counts, for no job can be at fault there."""
    assert after(subject, *[end("a"), end("b")] * 50, is_alone=True).failures == 2
    assert after(subject, *[end("a", cause="spawn")] * 4, is_alone=True).state is BreakerState.OPEN


def test_a_worker_that_reports_an_error_is_a_sound_worker() -> None:
    """A job that failed in a worker that lives on counts for node and stage and not for the workload."""
    reported = [end(f"j{number}", cause="error") for number in range(9)]

    assert after("workload:fake", *reported, is_alone=True).failures == 0
    assert after("node:n1", *reported).state is BreakerState.OPEN


def test_an_open_breaker_refuses_its_kinds_and_no_others() -> None:
    """The verdict names the subject and the last error."""
    refusals, places = admit(stored("stage:selfplay", "open"), KINDS, "n1", "fake")

    assert (set(refusals), places) == ({"play"}, ())
    [verdict] = refusals.values()
    assert not verdict.allowed
    assert verdict.rule == "the breaker of stage:selfplay is open: exit 1"


def test_a_node_that_is_refused_workers_still_moves_files() -> None:
    """Other nodes are not concerned by its breaker at all."""
    assert set(admit(stored("node:n1", "open"), KINDS, "n1", "fake")[0]) == {"play", "train", "rate"}
    assert admit(stored("node:n1", "open"), KINDS, "n2", "fake")[0] == {}
    assert admit(stored("workload:fake", "open"), KINDS, "n1", "other")[0] == {}


def test_half_open_lets_one_job_through_at_a_time() -> None:
    """While its trial runs, no other job is let through."""
    assert admit(stored("node:n1", "half_open"), KINDS, "n1", "fake") == ({}, ((("play", "train", "rate"), 1),))

    refusals, places = admit(stored("node:n1", "half_open", "j1"), KINDS, "n1", "fake")
    assert (set(refusals), places) == ({"play", "train", "rate"}, ())


def test_only_the_trial_decides() -> None:
    """A failure of a job that began before the breaker opened changes nothing; the trial's opens it again, its success
    closes it."""
    breaker = stored("node:n1", "half_open", "j1")["node:n1"]

    assert _settle(breaker, end("old"), LIMITS, False) == breaker
    again = _settle(breaker, end("j1"), LIMITS, False)
    assert (again.state, again.opened, again.trials) == (BreakerState.OPEN, 2, ())
    assert _settle(breaker, end("j1", error=None), LIMITS, False).state is BreakerState.CLOSED


def test_the_observer_ends_the_time_of_open_breakers() -> None:
    """One that was open for its time gets a trial; others stay as they are."""
    rows = [*stored("node:n1", "open").values(), *stored("node:n2", "open").values()]
    [first, second] = breakers.observations(rows)
    assert (first.seconds, first.counter) == (9.0, 1)

    [rested] = breakers.rest(rows, {second.name}, [])

    assert (rested.subject, rested.state) == ("node:n2", BreakerState.HALF_OPEN)
    assert breakers.observations([rested]) == []


def test_a_trial_that_was_lost_frees_its_place() -> None:
    """A trial whose job is claimed no more, or by a node that is not the one tried, is over without a result."""
    breaker = stored("node:n1", "half_open", "j1")["node:n1"]

    assert breakers.rest([breaker], (), [row("j1", "n1")]) == []
    for claimed in ([], [row("j1", "n2")], [row("j2", "n1")]):
        [free] = breakers.rest([breaker], (), claimed)
        assert (free.state, free.trials, free.tries) == (BreakerState.HALF_OPEN, (), 0)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=80))
def test_a_stage_opens_only_on_failures_in_a_row_of_two_nodes(history: list[tuple[str, bool]]) -> None:
    """In every history of three nodes."""
    breaker, row_of_failures = StoredBreaker(subject="stage:selfplay"), list[str]()
    for number, (node, is_good) in enumerate(history):
        breaker = _settle(breaker, end(f"j{number}", node=node, error=None if is_good else "x"), LIMITS, False)
        row_of_failures = [] if is_good else [*row_of_failures, node]
        is_open = len(row_of_failures) >= LIMITS.stage_failures_max and len(set(row_of_failures)) > 1
        assert (breaker.state is BreakerState.OPEN) == is_open
