"""Run states: whether work may start in a scope, who stopped it, why, and until when.

A scope is the cluster, a node, a variant or a stage of the loop.  Work starts only if every scope it belongs to runs:

* *paused*: nothing starts, running jobs go on;
* *draining*: the same, and it is meant to end: running jobs finish;
* *stopped*: the same, for good;
* *emergency*: nothing starts, and running jobs are stopped and given back to the queue.

All scopes that do not run are one record, so that a claim reads one row.
"""

from typing import Any

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.events.work import RunStateChanged
from ringrift.jobs import LOOP_STAGES
from ringrift.kernel.errors import InvalidId, InvalidPayload, LimitReached, UnknownName, printable, require_name
from ringrift.kernel.value import Value, changed
from ringrift.kernel.verdict import Verdict
from ringrift.store.ports import Reads, Tx
from ringrift.store.records import Records

RUNNING, EMERGENCY = "running", "emergency"
_STATES = (RUNNING, "paused", "draining", EMERGENCY, "stopped")
_WEAKEST_FIRST = ("paused", "draining", "stopped", EMERGENCY)
CLUSTER = "cluster"
BY_RUN = "ringrift run"  # the author of a pause that a run has set; it never ends one of a person
_SCOPES = ("node", "variant", "stage")
_RUN_STATES_MAX = 1000  # scopes that may be other than running at once
_SCOPE_CHARACTERS_MAX = 300
_TEXT_CHARACTERS_MAX = 2000


class RunState(Value):
    """The state of one scope, since when, and until when unless for good."""

    scope: str
    state: str = RUNNING
    reason: str = ""
    by: str = ""
    since: float = 0.0
    until: float | None = None

    def is_in_force(self, now: float) -> bool:
        """Whether it keeps work from starting at *now*."""
        return self.state != RUNNING and (self.until is None or now < self.until)

    def __str__(self) -> str:
        state = f"in {self.state}" if self.state == EMERGENCY else self.state
        return f"{self.scope} is {state}" + (f": {self.reason}" if self.reason else "")


def _check_scope(scope: str) -> None:
    """Raise UnknownName or InvalidId unless *scope* is the cluster, a node, a variant or a stage."""
    kind, _, name = scope.partition(":")
    if scope == CLUSTER:
        return
    if kind not in _SCOPES:
        raise UnknownName("scope", scope, (CLUSTER, *(f"{kind}:<name>" for kind in _SCOPES)))
    if not name or len(scope) > _SCOPE_CHARACTERS_MAX or not name.isprintable():
        raise InvalidId("scope", scope, f"use 1 to {_SCOPE_CHARACTERS_MAX} printable characters after {kind}:")
    if kind == "stage" and name not in LOOP_STAGES:
        raise UnknownName("stage", name, LOOP_STAGES)


class RunStates(Value):
    """Every scope that is not running, by its name."""

    by_scope: dict[str, RunState] = {}

    def find(self, *, node: str = "", variant: str = "", stage: str = "", now: float) -> RunState | None:
        """The strongest state in force for work with these properties, any of which may be empty; None: it may run."""
        names = zip(_SCOPES, (node, variant, stage), strict=True)
        scopes = (CLUSTER, *(f"{kind}:{name}" for kind, name in names if name))
        states = [state for scope in scopes if (state := self.by_scope.get(scope)) and state.is_in_force(now)]
        return max(states, key=lambda state: _WEAKEST_FIRST.index(state.state), default=None)

    def verdict(self, gate: str, *, node: str = "", variant: str = "", stage: str = "", now: float) -> Verdict:
        """Whether work with these properties may start or a pointer may move: the verdict of *gate*."""
        state = self.find(node=node, variant=variant, stage=stage, now=now)
        if state is None:
            return Verdict(gate=gate, allowed=True, rule="every scope is running", value=0, limit=1, since=now)
        since, until = state.since, state.until
        return Verdict(gate=gate, allowed=False, rule=str(state), value=1, limit=1, since=since, until=until)

    def current(self, scope: str, now: float) -> RunState:
        """The state of *scope* itself, whatever wider scopes are."""
        state = self.by_scope.get(scope)
        return state if state is not None and state.is_in_force(now) else RunState(scope=scope)

    def rests(self, variant: str, now: float) -> bool:
        """Whether *variant* is paused because a run works on others."""
        return self.current(f"variant:{variant}", now).by == BY_RUN

    def without_rests(self) -> "RunStates":
        """The same without what a run has paused, which may have been killed."""
        return RunStates(by_scope={scope: state for scope, state in self.by_scope.items() if state.by != BY_RUN})

    def in_force(self, now: float) -> list[RunState]:
        """Every state in force at *now*, by scope."""
        return [state for _, state in sorted(self.by_scope.items()) if state.is_in_force(now)]


_RECORDS = Records("run_states", RunStates)
_ID = "all"


async def load_run_states(view: Reads) -> RunStates:
    """Every scope that is not running."""
    return await _RECORDS.get(view, _ID) or RunStates()


async def set_run_state(tx: Tx, envelopes: EnvelopeFactory, *, now: float, **fields: Any) -> RunState:
    """Put a scope into a state, with the *fields* of :class:`RunState`, and publish it; if nothing changes, nothing is.

    Raises UnknownName, InvalidId, InvalidPayload or LimitReached, and then nothing has changed.
    """
    new = RunState(since=now, **fields)
    _check_scope(new.scope)
    require_name("run state", new.state, _STATES)
    if new.until is not None and not now < new.until < float("inf"):
        raise InvalidPayload("until", f"{new.until:g} does not lie after {now:g}: the state would end before it begins")
    reason, by = (printable(text, _TEXT_CHARACTERS_MAX) for text in (new.reason, new.by))
    new = changed(new, reason=reason, by=by, until=None if new.state == RUNNING else new.until)
    states = await load_run_states(tx)
    before = states.by_scope.get(new.scope, RunState(scope=new.scope))
    if before.state == RUNNING == new.state or new == changed(before, since=now):
        return before
    await _replace(tx, envelopes, states, [new])
    return new


async def expire_run_states(tx: Tx, envelopes: EnvelopeFactory, now: float) -> list[RunState]:
    """Set the scopes whose time is over to running and publish that; the states that ended."""
    states = await load_run_states(tx)
    over = [state for state in states.by_scope.values() if not state.is_in_force(now)]
    resumed = [RunState(scope=state.scope, reason="its time is over", since=now) for state in over]
    await _replace(tx, envelopes, states, resumed)
    return over


async def _replace(tx: Tx, envelopes: EnvelopeFactory, states: RunStates, changes: list[RunState]) -> None:
    if not changes:
        return
    by_scope, envelopes_made = dict(states.by_scope), []
    for new in changes:
        before = by_scope.pop(new.scope, None)
        if new.state != RUNNING:
            by_scope[new.scope] = new
        facts = {name: getattr(new, name) for name in ("scope", "state", "reason", "by", "until")}
        event = RunStateChanged(before=before.state if before else RUNNING, **facts)
        envelopes_made.append(envelopes.make(event, source="run_states"))
    if len(by_scope) > max(_RUN_STATES_MAX, len(states.by_scope)):
        raise LimitReached("run state", "scopes that are not running", len(states.by_scope), _RUN_STATES_MAX)
    await _RECORDS.put_at(tx, {_ID: RunStates(by_scope=by_scope)})
    await tx.append(envelopes_made)
