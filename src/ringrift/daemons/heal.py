"""Gives what fails its next step of recovery, and pauses the loop while the health of the system is critical.

Everything that it does is a step of :mod:`ringrift.cluster.recovery`, an event and a stored verdict.  It resumes only
what it has paused itself: a brake that a person set stays.
"""

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cluster.leadership import Roles
from ringrift.cluster.recovery import BUDGET_SECONDS, HEALER, STEPS_PER_HOUR_MAX, Trouble
from ringrift.cluster.roster import Roster
from ringrift.kernel.clock import Clock
from ringrift.kernel.health import Status
from ringrift.kernel.settings import ClusterSettings, Settings
from ringrift.kernel.stall_detector import Observation, StallDetector, recent
from ringrift.pipeline.healer import Healer, find_troubles
from ringrift.pipeline.health_survey import HealthSurvey
from ringrift.pipeline.system_health import DEGRADED_FROM, HealthFacts, SystemHealth, judge
from ringrift.store.ports import Store
from ringrift.supervision.spec import Daemon
from ringrift.work.run_states import CLUSTER, RUNNING, RunState

_CRITICAL, _GOOD = "the score is critical", "the score is good"


class _HealMemory:
    """What this healer has observed, on its own clock."""

    def __init__(self) -> None:
        self._detector = StallDetector()
        self._measured: set[str] = set()
        self.steps: tuple[float, ...] = ()  # when each recent step was taken
        self.has_paused = self._is_overruled = False
        self.survey: HealthSurvey | None = None

    def observe(
        self, facts: HealthFacts, health: SystemHealth, troubles: list[Trouble], settings: ClusterSettings, tick: float
    ) -> frozenset[str]:
        """The subjects about which nothing has changed for their time, and whether the score stays critical or good.

        At the start of a node nothing is measured: the score is critical only once every part was.
        """
        self._measured |= {part.part for part in health.parts if part.status is not Status.UNKNOWN}
        self.steps = recent(self.steps, tick, BUDGET_SECONDS)
        is_measured = self._measured.issuperset(part.part for part in health.parts)
        numbers = {recovery.subject: recovery.number for recovery in facts.recoveries}
        failing = {trouble.subject for trouble in troubles}
        rest, pause = settings.heal_rest_seconds, settings.heal_pause_seconds
        rows = [(name, 2 * numbers.get(name, 0) + (name in failing), rest) for name in failing | numbers.keys()]
        is_good = health.score >= DEGRADED_FROM
        scores = {_CRITICAL: (health.is_critical and is_measured, pause), _GOOD: (is_good, 2 * pause)}
        rows += [(name, int(is_so), seconds) for name, (is_so, seconds) in scores.items()]
        stalled = {row.name for row in self._detector.stalled([Observation(*row) for row in rows], tick)}
        return frozenset(stalled - {name for name, (is_so, _) in scores.items() if not is_so})

    def next_state(self, brake: RunState | None, stalled: frozenset[str]) -> str | None:
        """The run state that the cluster is to get now, if any; *brake* is the one that it has."""
        is_ours = brake is not None and brake.by == HEALER
        # A person who ends our pause overrules us until the score is good again.
        overrules = self.has_paused and brake is None
        self._is_overruled = (self._is_overruled or overrules) and _GOOD not in stalled
        self.has_paused = is_ours and _GOOD not in stalled
        if is_ours and _GOOD in stalled:
            return RUNNING
        if brake is None and _CRITICAL in stalled and not self._is_overruled:
            return "paused"
        return None


async def heal(
    *, store: Store, roster: Roster, roles: Roles, envelopes: EnvelopeFactory, clock: Clock, settings: Settings,
    memory: _HealMemory,
) -> None:  # fmt: skip
    """Look once and take the steps that are due; without any, nothing is written."""
    if settings.cluster.heal == "off":
        return
    memory.survey = memory.survey or HealthSurvey(store, roster, clock, settings)
    facts, tick, is_acting = await memory.survey.look(), clock.tick(), settings.cluster.heal == "act"
    health, troubles = judge(facts), find_troubles(facts)
    stalled = memory.observe(facts, health, troubles, settings.cluster, tick)
    brake = next((state for state in facts.run_states if state.scope == CLUSTER), None)
    state = memory.next_state(brake, stalled)
    failing = {trouble.subject for trouble in troubles}
    ended = [row for row in facts.recoveries if row.subject not in failing and row.subject in stalled]
    if not troubles and not ended and state is None:
        return
    async with store.begin() as tx:
        await roles.check(HEALER, tx)
        left = STEPS_PER_HOUR_MAX - len(memory.steps)
        healer = Healer(tx, envelopes, clock.now(), is_acting=is_acting, steps_left=left)
        for trouble in troubles:
            await healer.take_step(trouble, is_rested=trouble.subject in stalled)
        for recovery in ended:
            await healer.end(recovery)
        if state is not None:
            await healer.brake_loop(state, health)
    memory.steps += (tick,) * (left - healer.steps_left)
    memory.has_paused |= state == "paused" and is_acting


_SECONDS, _AFTER = "cluster.heal_seconds", ("watch",)
SPEC = Daemon(name="heal", run=heal, role=HEALER, memory=_HealMemory, every=_SECONDS, after=_AFTER, category="health")
