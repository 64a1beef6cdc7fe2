"""Brakes on a whole cluster in virtual time: what starts, what ends, and which champion pointers move."""

from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.kernel.ids import Ids
from ringrift.pipeline import challenge
from ringrift.pipeline.line import DECISIONS, LINES, Decision, Line
from ringrift.sim.launch import WorkerBehaviour
from ringrift.sim.loop import SimLoop, run
from ringrift.sim.world import SETTINGS, World
from ringrift.store.ports import JobRow, Reads, Tx
from ringrift.work.run_states import EMERGENCY, RUNNING, load_run_states, set_run_state
from wait import wait_until

VARIANT, GRACE_SECONDS, PATIENCE_SECONDS = "hex8_2p", 2.0, 300.0
EASY = SETTINGS.overlaid(
    {
        "policy.gate.elo_0": -200.0,
        "policy.gate.elo_1": 0.0,
        "policy.gate.blocks_min": 4,
        "policy.budget.share": 0.5,
        "policy.budget.start": 1.0,
    }
)
"""A gate that lets nearly every candidate pass at once: these tests are about brakes, not about evidence."""


class Operator:
    """A person at a terminal of a simulated cluster whose workers never fail."""

    def __init__(self, loop: SimLoop, seed: int) -> None:
        self.world, clock = World(loop, seed, settings=EASY), loop.clock("terminal")
        self.world.behaviour = WorkerBehaviour(seconds_max=1.0)
        self.clock, self.envelopes = clock, EnvelopeFactory("terminal", clock, Ids(clock, Random(seed)))

    async def set_state(self, scope: str, state: str, seconds: float | None = None) -> None:
        """Put *scope* into *state*, for so many seconds if that is limited."""
        now = self.clock.now()

        async def write(tx: Tx) -> None:
            until = None if seconds is None else now + seconds
            await set_run_state(tx, self.envelopes, scope=scope, state=state, by="anna", until=until, now=now)

        await self.world.query(write)

    async def until(self, holds: Callable[[Reads], Awaitable[bool]]) -> None:
        """Wait in virtual time until a condition on the store holds."""

        async def is_true() -> bool:
            return bool(await self.world.query(holds))

        await wait_until(is_true, PATIENCE_SECONDS, step_seconds=0.2)

    async def watch(self, seconds: float) -> None:
        """Let *seconds* of virtual time pass."""
        end = self.world.loop.time() + seconds
        await wait_until(lambda: self.world.loop.time() >= end, seconds + 1.0, step_seconds=0.5)

    async def line(self) -> Line:
        """The line."""
        line: Line = await self.world.query(lambda view: LINES.get(view, VARIANT))
        return line

    async def promotions(self) -> list[Decision]:
        """Every promotion so far."""
        decisions: list[Decision] = await self.world.query(lambda view: DECISIONS.all(view, "variant", VARIANT))
        return [decision for decision in decisions if decision.promoted]

    async def jobs(self, state: str) -> list[JobRow]:
        """The jobs in *state*."""
        rows: list[JobRow] = await self.world.query(lambda view: view.jobs((state,), 100_000))
        return rows


async def has_champion(view: Reads) -> bool:
    """Whether the line has its first champion."""
    line = await LINES.get(view, VARIANT)
    return line is not None and line.champion is not None


async def has_promoted(view: Reads, count: int) -> bool:
    """Whether there were so many promotions."""
    decisions = await DECISIONS.all(view, "variant", VARIANT)
    return sum(decision.promoted for decision in decisions) >= count


async def has_done(view: Reads, count: int) -> bool:
    """Whether so many jobs have ended with a result."""
    return len(await view.jobs(("done",), 100_000)) >= count


async def waits_to_promote(view: Reads) -> bool:
    """Whether the candidate has won its match."""
    line = await LINES.get(view, VARIANT)
    test = line.candidate.challenge if line and line.candidate else None
    return test is not None and challenge.outcome(test, 2).decided is True


async def has_no_run_states(view: Reads) -> bool:
    """Whether every scope is running."""
    return not (await load_run_states(view)).by_scope


async def has_claims(view: Reads) -> bool:
    """Whether jobs run."""
    return bool(await view.jobs(("claimed",), 10))


async def has_no_claims(view: Reads) -> bool:
    """Whether no job runs."""
    return not await has_claims(view)


def test_a_promotion_under_emergency_happens_once_after_the_resumption() -> None:
    """A candidate that has won waits through the emergency, and becomes champion once, on the evidence of then."""

    async def story(loop: SimLoop) -> None:
        operator = Operator(loop, 2)
        await operator.world.boot()
        await operator.until(has_champion)
        await operator.set_state("stage:promote", "paused")
        await operator.until(waits_to_promote)
        before, line = await operator.promotions(), await operator.line()
        await operator.set_state("cluster", EMERGENCY)
        await operator.set_state("stage:promote", RUNNING)

        await operator.watch(5 * GRACE_SECONDS)
        assert await operator.promotions() == before
        assert (await operator.line()).champion == line.champion
        assert await operator.jobs("claimed") == []
        await operator.set_state("cluster", RUNNING)
        await operator.until(lambda view: has_promoted(view, len(before) + 1))
        await operator.watch(5.0)

        assert line.candidate is not None
        promoted = Counter(decision.model for decision in await operator.promotions())
        assert promoted[line.candidate.model] == 1
        assert max(promoted.values()) == 1
        [decision] = [row for row in await operator.promotions() if row.model == line.candidate.model]
        assert decision.evidence is not None
        assert decision.evidence.blocks <= len(line.candidate.challenge.blocks if line.candidate.challenge else ())

    run(2, story)


@pytest.mark.parametrize(("state", "ends_at_once"), [("paused", False), ("draining", False), (EMERGENCY, True)])
@pytest.mark.parametrize("scope", ["cluster", f"variant:{VARIANT}"])
def test_nothing_starts_until_work_resumes(scope: str, state: str, ends_at_once: bool) -> None:
    """No job is claimed under the brake; an emergency gives running jobs back with no attempt used up."""

    async def story(loop: SimLoop) -> None:
        operator = Operator(loop, 5)
        await operator.world.boot()
        await operator.until(has_champion)
        await operator.until(has_claims)
        done = len(await operator.jobs("done"))
        running = await operator.jobs("claimed")
        await operator.set_state(scope, state)

        await operator.until(has_no_claims)
        fences = {row.id: row.fence for row in [*await operator.jobs("ready"), *await operator.jobs("done")]}
        await operator.watch(15.0)

        after = {row.id: row.fence for row in [*await operator.jobs("ready"), *await operator.jobs("done")]}
        assert await operator.jobs("claimed") == []
        assert {id: fence for id, fence in after.items() if fence} == {id: f for id, f in fences.items() if f}
        if not ends_at_once:
            assert {row.id for row in running} <= {row.id for row in await operator.jobs("done")}
        assert all(row.attempts == 0 for row in await operator.jobs("ready"))
        assert await operator.jobs("dead") == []
        await operator.set_state(scope, RUNNING)
        await operator.until(has_claims)
        await operator.until(lambda view: has_done(view, done + len(running) + 1))

    run(5, story)


def test_a_brake_with_a_time_ends_by_itself() -> None:
    """After its time the loop goes on without a person, and the record is empty."""

    async def story(loop: SimLoop) -> None:
        operator = Operator(loop, 6)
        await operator.world.boot()
        await operator.until(has_champion)
        await operator.set_state("cluster", "paused", seconds=20.0)
        await operator.until(has_no_claims)
        before = len(await operator.promotions())

        await operator.until(has_claims)

        await operator.until(has_no_run_states)  # a claim may be quicker than the observer that deletes the record
        await operator.until(lambda view: has_promoted(view, before + 1))

    run(6, story)
