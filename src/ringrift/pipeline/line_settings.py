"""Line settings: the workload, job parameters and policy of one line, whatever its process was started with.

A run works on its own variants alone.  The other lines of the store rest: their scope is paused, so that no job of
theirs is given out, no self-play is asked for and no decision about them is taken, while the pipeline records every
event of theirs.  The next run or node that opens them ends the pause, and the pipeline decides on what it has recorded.
"""

from collections.abc import Mapping

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.kernel.settings import Policy, Settings
from ringrift.kernel.value import changed
from ringrift.pipeline.line import LINES, Line
from ringrift.store.ports import Reads, Store, Tx
from ringrift.store.records import Records
from ringrift.work.limits import LineWork
from ringrift.work.run_states import BY_RUN, RUNNING, load_run_states, set_run_state

_VARIANT = "variant:"


class LineSettings(LineWork):
    """The settings in force for a line: those of the last run or node that opened it."""

    policy: Policy = Policy()  #: Defaults, preset of its workload, and what a person set.
    baselines: tuple[str, ...] | None = None  #: Players that never train, weakest first; None: not declared.


LINE_SETTINGS = Records("line_settings", LineSettings)  #: By variant.


def own_settings(settings: Settings) -> LineSettings:
    """The settings of a process as those of a line of its workload."""
    work, policy = settings.work, settings.policy
    return LineSettings(workload=work.workload, params=dict(work.params), requires=work.requires, policy=policy)


async def policy_of(view: Reads, variant: str, default: Policy) -> Policy:
    """The policy of the line *variant*; *default*, that of the process, where none is stored.

    Whether stages start by themselves is a matter of the process, which may change its mind while it runs.
    """
    row = await LINE_SETTINGS.get(view, variant)
    return default if row is None else changed(row.policy, auto=default.auto)


async def lines_in_force(view: Reads, now: float) -> list[Line]:
    """The lines that this run works on, or all if it is none: not those that rest because of it."""
    states = await load_run_states(view)
    return [line for line in await LINES.all(view) if not states.rests(line.variant, now)]


async def open_lines(
    store: Store,
    envelopes: EnvelopeFactory,
    now: float,
    own: LineSettings,
    lines: Mapping[str, LineSettings],
    *,
    alone: bool,
) -> None:
    """Put the settings of *lines* in force; if they are worked on *alone*, every other line of the store rests.

    Otherwise those of the process's *own* workload get its settings.
    """
    async with store.begin() as tx:
        workloads = {line.variant: line.workload for line in await LINES.all(tx)}
        stored = await LINE_SETTINGS.scan(tx)
        rows = _rows(own, lines, workloads, stored, alone=alone)
        await LINE_SETTINGS.put_at(tx, {variant: row for variant, row in rows.items() if row != stored.get(variant)})
        others = set(workloads).difference(lines) if alone else set[str]()
        await _rest(tx, envelopes, now, others, sorted(lines))


def _rows(
    own: LineSettings,
    lines: Mapping[str, LineSettings],
    workloads: Mapping[str, str],
    stored: Mapping[str, LineSettings],
    *,
    alone: bool,
) -> dict[str, LineSettings]:
    """The settings of *lines*, and of those of *workloads* that have none yet or, unless *alone*, take our *own*."""
    opened = dict(lines)
    if not alone:
        opened = {**{name: own for name, workload in workloads.items() if workload == own.workload}, **opened}
    rows = {variant: _with_baselines(row, stored.get(variant)) for variant, row in opened.items()}
    # A line of another workload without a record comes from an earlier version.
    older = set(workloads).difference(stored, opened)
    return rows | {name: LineSettings(workload=workloads[name], policy=own.policy) for name in older}


async def end_rest(store: Store, envelopes: EnvelopeFactory, now: float) -> None:
    """End every rest: the run is over, and whoever opens the store next decides anew."""
    async with store.begin() as tx:
        await _rest(tx, envelopes, now, set(), [])


def _with_baselines(row: LineSettings, before: LineSettings | None) -> LineSettings:
    """*row*; a node that does not know what its variants declare leaves what a run has stored."""
    if row.baselines is not None or before is None or before.workload != row.workload:
        return row
    return changed(row, baselines=before.baselines)


async def _rest(tx: Tx, envelopes: EnvelopeFactory, now: float, others: set[str], variants: list[str]) -> None:
    """Pause *others*, unless somebody has stopped them already, and end every other pause of an earlier run."""
    states = (await load_run_states(tx)).by_scope
    for scope, state in states.items():
        if state.by == BY_RUN and scope.removeprefix(_VARIANT) not in others:
            await set_run_state(tx, envelopes, now=now, scope=scope, state=RUNNING, by=BY_RUN)
    for variant in sorted(others):
        before = states.get(f"{_VARIANT}{variant}")
        if before is None or before.by == BY_RUN or not before.is_in_force(now):
            reason = f'this run works on {", ".join(variants)}; "ringrift run --variants {variant}" goes on with it'
            fields = {"scope": f"{_VARIANT}{variant}", "state": "paused", "reason": reason, "by": BY_RUN}
            await set_run_state(tx, envelopes, now=now, **fields)
