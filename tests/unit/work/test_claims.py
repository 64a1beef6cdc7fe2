"""The plan of a claim: every brake refuses exactly what it is about, with a verdict that names the rule."""

from typing import Any

import pytest

from ringrift.jobs import GAME_KINDS, JOB_KINDS
from ringrift.kernel.verdict import Verdict
from ringrift.store.ports import JobCounter
from ringrift.work.claims import _Brakes, _ClaimPlan, _counted_kinds, _plan_claim
from ringrift.work.run_states import _STATES, RunState, RunStates
from ringrift.work.tasks import LIMITED_KINDS, Limit, StoredLimits

NOW = 100.0


def plan(**brakes: Any) -> _ClaimPlan:
    """The plan for node n, which takes every kind."""
    return _plan_claim(_Brakes(**brakes), "n", JOB_KINDS, NOW)


def stopped(scope: str, state: str = "paused", until: float | None = None) -> RunStates:
    """Run states with one scope that does not run."""
    return RunStates(by_scope={scope: RunState(scope=scope, state=state, until=until, since=7.0)})


def limits(**rows: tuple[int, int]) -> StoredLimits:
    """Limits that nothing reaches, with these (node, cluster) for these types."""
    table = {type: Limit(node_max=node, cluster_max=cluster) for type, (node, cluster) in rows.items()}
    return StoredLimits(table=dict.fromkeys(LIMITED_KINDS, Limit(node_max=99, cluster_max=99)) | table)


def counter(kind: str, variant: str = "v", holder: str = "n", count: int = 1) -> JobCounter:
    """The counter of what runs or is ready."""
    return JobCounter(kind=kind, variant=variant, holder=holder, count=count)


def test_without_brakes_everything_may_be_claimed() -> None:
    """Only trainings are bound: one of each variant at a time."""
    free = plan()

    assert set(free.kinds) == JOB_KINDS
    assert not free.has_refusals()
    assert free.terms is not None
    assert (free.terms.one_per_variant, free.terms.without, free.terms.places) == (("train",), {}, ())
    assert _plan_claim(_Brakes(), "n", {"play"}, NOW).terms is None


@pytest.mark.parametrize("state", _STATES[1:])
@pytest.mark.parametrize("scope", ["cluster", "node:n"])
def test_a_stopped_cluster_or_node_claims_nothing(scope: str, state: str) -> None:
    """Whatever the state is called, no kind may be claimed until it is over."""
    refused = plan(run_states=stopped(scope, state, until=NOW + 1))

    assert refused.kinds == ()
    assert set(refused.by_kind) == JOB_KINDS
    verdict = refused.by_kind["train"]
    assert (verdict.gate, verdict.since, verdict.until) == ("claim.train", 7.0, NOW + 1)
    assert plan(run_states=stopped(scope, state, until=NOW)).kinds
    assert plan(run_states=stopped("node:m", state)).kinds


def test_a_stopped_stage_keeps_its_kinds_in_the_queue() -> None:
    """The kinds of the stage are refused, and no other."""
    refused = plan(run_states=stopped("stage:evaluate"))

    assert set(refused.by_kind) == {"match", "verify", "rate"}
    assert set(refused.kinds) == JOB_KINDS - {"match", "verify", "rate"}
    assert not plan(run_states=stopped("stage:promote")).has_refusals()


def test_a_stopped_variant_is_left_out_of_every_kind() -> None:
    """Its jobs stay in the queue; refusals are about those that are ready."""
    refused = plan(run_states=stopped("variant:v"))

    assert set(refused.kinds) == JOB_KINDS
    assert refused.terms is not None
    assert refused.terms.without == {kind: ["v"] for kind in sorted(JOB_KINDS)}
    verdicts = refused.refusals([counter("play"), counter("play", "w")])
    assert {pair: verdict.rule for pair, verdict in verdicts.items()} == {("play", "v"): "variant:v is paused"}


def test_a_quarantined_node_gets_no_games() -> None:
    """The reason is the reason of the quarantine."""
    bad = Verdict(gate="trust", allowed=False, rule="canaries", value=1, limit=0, since=3.0)
    refused = plan(quarantine=bad)

    assert set(refused.by_kind) == GAME_KINDS
    assert refused.by_kind["play"].rule == "node n is in quarantine: canaries"


def test_a_breaker_refuses_its_kinds() -> None:
    """The verdict of a breaker is stored under the gate of the claim; its places bound the claim."""
    is_open = Verdict(gate="claim", allowed=False, rule="the breaker of stage:train is open", value=3, limit=0)
    refused = plan(closed={"train": is_open}, places=((("match",), 1),))

    assert refused.by_kind["train"].gate == "claim.train"
    assert "train" not in refused.kinds
    assert refused.terms is not None
    assert refused.terms.places == ((("match",), 1),)


@pytest.mark.parametrize("kind", ["train", "task:training"])
def test_a_variant_in_training_is_not_trained_again(kind: str) -> None:
    """A task or a job that trains it, on any node, refuses its next training and no other variant's."""
    refused = plan(running=[counter(kind, holder="m"), counter("task:selfplay", "w"), counter("task:training", "")])

    assert refused.terms is not None
    assert refused.terms.without == {"train": ["v"]}
    verdict = refused.by_variant["train", "v"]
    assert (verdict.rule, verdict.value, verdict.limit) == ("training slot of v", 1, 1)


def test_stored_limits_bind_claims() -> None:
    """Jobs and tasks of a type together stay below the limits of the node and of the cluster."""
    bound = plan(limits=limits(selfplay=(4, 100)), running=[counter("play", count=1), counter("task:gpu_selfplay")])
    assert bound.terms is not None
    assert (("play",), 2) in bound.terms.places

    running = [counter("match", count=1), counter("task:evaluation", holder="m")]
    full = plan(limits=limits(evaluation=(5, 2)), running=running)
    assert set(full.by_kind) == {"match", "verify", "rate"}
    verdict = full.by_kind["rate"]
    assert (verdict.rule, verdict.value, verdict.limit) == ("jobs and tasks of type evaluation in the cluster", 2, 2)
    assert "import" in plan(limits=limits()).kinds


def test_limits_that_are_not_stored_bind_no_claims() -> None:
    """Without stored limits a node has its slots: the documents' defaults are for tasks."""
    assert not plan(running=[counter("play", count=10_000)]).has_refusals()


def test_only_counters_that_matter_are_read() -> None:
    """A claim of games without limits reads none; one of trainings those of its slot; with limits all of them."""
    assert _counted_kinds({"play"}, StoredLimits()) == frozenset()
    assert _counted_kinds({"play", "train"}, StoredLimits()) == {"train", "task:training"}
    assert {"play", "sync", "task:parity"} <= _counted_kinds({"play"}, limits())
