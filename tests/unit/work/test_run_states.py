"""Run states: the strongest one in force decides, every change is published once, and bad input changes nothing."""

from itertools import pairwise
from pathlib import Path

import pytest

from ringrift.events.work import RunStateChanged
from ringrift.jobs import JOBS, LOOP_STAGES
from ringrift.kernel.errors import InvalidId, InvalidPayload, LimitReached, RingriftError, UnknownName
from ringrift.work.run_states import (
    _RECORDS,
    _RUN_STATES_MAX,
    _STATES,
    RunState,
    RunStates,
    expire_run_states,
    load_run_states,
    set_run_state,
)
from unit.work.world import World, play


def states(*rows: tuple[str, str], until: float | None = None) -> RunStates:
    """Run states from (scope, state)."""
    return RunStates(by_scope={scope: RunState(scope=scope, state=state, until=until) for scope, state in rows})


def test_every_job_has_a_stage() -> None:
    """Each kind of job belongs to one stage, and the move of the champion pointer is a stage of its own."""
    assert all(job.stage in LOOP_STAGES for job in JOBS)
    assert LOOP_STAGES[-1] == "promote"
    assert {job.kind(): job.stage for job in JOBS}["rate"] == "evaluate"


def test_the_strongest_state_in_force_decides() -> None:
    """Emergency is stronger than stopped, stopped than draining, draining than paused."""
    order = ("paused", "draining", "stopped", "emergency")
    scopes = ("cluster", "node:n", "variant:v", "stage:train")
    for weaker, stronger in pairwise(order):
        for first in scopes:
            for second in scopes:
                both = states((first, weaker), (second, stronger))
                state = both.find(node="n", variant="v", stage="train", now=0.0)
                assert state is not None
                assert state.state == stronger


def test_a_state_binds_its_scope_alone() -> None:
    """Other nodes, variants and stages go on; the cluster binds everything."""
    for scope in ("node:n", "variant:v", "stage:train"):
        paused = states((scope, "paused"))
        assert paused.find(node="n", variant="v", stage="train", now=0.0)
        assert paused.find(node="m", variant="w", stage="export", now=0.0) is None
        assert paused.find(now=0.0) is None
    assert states(("cluster", "paused")).find(now=0.0)


def test_an_expired_state_is_not_in_force() -> None:
    """At its end a pause is over, even before it is removed; its verdict says until when it holds."""
    paused = states(("cluster", "paused"), until=10.0)
    verdict = paused.verdict("claim.train", now=9.0)
    assert (verdict.allowed, verdict.until, verdict.rule) == (False, 10.0, "cluster is paused")
    assert paused.verdict("claim.train", now=10.0).allowed
    assert paused.in_force(9.0)
    assert not paused.in_force(10.0)


def test_every_change_is_published_once(tmp_path: Path) -> None:
    """Setting the same state again publishes nothing; resuming publishes what it was before."""

    async def story(world: World) -> None:
        async def put(state: str, reason: str = "") -> RunState:
            async with world.store.begin() as tx:
                return await set_run_state(
                    tx, world.envelopes, scope="node:n", state=state, reason=reason, by="me", now=1.0
                )

        await put("running")
        await put("paused", "a test")
        await put("paused", "a test")
        await put("emergency", "a test")
        await put("running")
        await put("running")
        events = await world.events(RunStateChanged)
        async with world.store.read() as view:
            assert (await load_run_states(view)).by_scope == {}
        facts = [(e.before, e.state, e.reason, e.by) for e in events if isinstance(e, RunStateChanged)]
        assert facts == [
            ("running", "paused", "a test", "me"),
            ("paused", "emergency", "a test", "me"),
            ("emergency", "running", "", "me"),
        ]

    play(tmp_path, story)


def test_expired_states_are_removed_with_an_event(tmp_path: Path) -> None:
    """Readers wake up because the end of a pause is an event; states without an end stay."""

    async def story(world: World) -> None:
        async with world.store.begin() as tx:
            await set_run_state(tx, world.envelopes, scope="node:n", state="paused", until=5.0, now=1.0)
            await set_run_state(tx, world.envelopes, scope="variant:v", state="stopped", now=1.0)
            assert await expire_run_states(tx, world.envelopes, 4.0) == []
            assert [state.scope for state in await expire_run_states(tx, world.envelopes, 5.0)] == ["node:n"]
            assert list((await load_run_states(tx)).by_scope) == ["variant:v"]
        last = (await world.events(RunStateChanged))[-1]
        assert isinstance(last, RunStateChanged)
        assert (last.scope, last.before, last.state) == ("node:n", "paused", "running")

    play(tmp_path, story)


def test_bad_input_changes_nothing(tmp_path: Path) -> None:
    """Unknown states, scopes and stages, an end in the past and one scope too many are refused with typed errors."""
    rows: list[tuple[type[RingriftError], dict[str, object]]] = [
        (UnknownName, {"state": "asleep"}),
        (UnknownName, {"scope": "galaxy"}),
        (UnknownName, {"scope": "stage:dream"}),
        (UnknownName, {"scope": "cluster:x"}),
        (InvalidId, {"scope": "node:"}),
        (InvalidId, {"scope": "variant:" + "v" * 300}),
        (InvalidPayload, {"until": 1.0}),
        (InvalidPayload, {"until": float("nan")}),
    ]

    async def story(world: World) -> None:
        async with world.store.begin() as tx:
            for error, changes in rows:
                arguments = {"scope": "node:n", "state": "paused", "now": 1.0} | changes
                with pytest.raises(error):
                    await set_run_state(tx, world.envelopes, **arguments)
            full = states(*((f"node:n{number}", "paused") for number in range(_RUN_STATES_MAX)))
            await _RECORDS.put_at(tx, {"all": full})
            with pytest.raises(LimitReached):
                await set_run_state(tx, world.envelopes, scope="node:one-more", state="paused", now=1.0)
            assert await load_run_states(tx) == full
            await set_run_state(tx, world.envelopes, scope="node:n0", state="stopped", now=1.0)
        assert len(await world.events(RunStateChanged)) == 1

    play(tmp_path, story)


def test_the_states_are_those_of_the_documents() -> None:
    """The five states, in their documented order."""
    assert _STATES == ("running", "paused", "draining", "emergency", "stopped")
