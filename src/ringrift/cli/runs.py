"""Runs: a record of every run in a home: when, how long, and with which settings."""

from collections.abc import Sequence

from ringrift.environment import EffectiveSettings, InForce
from ringrift.kernel.value import Value, changed
from ringrift.pipeline.proof import Finding
from ringrift.store.ports import Store
from ringrift.store.records import Records

_RUNS_MAX = 1000  # about 10 kB each; the oldest make room


class RunRecord(Value):
    """One run.  *seconds* is measured by its own monotonic clock; a run that was killed has no *ended*."""

    id: str  #: r1, r2, …: short enough to be typed.
    number: int
    began: float
    pid: int
    seed: int
    variants: tuple[str, ...]
    minutes: float = 0.0  #: 0: no time limit.
    settings: dict[str, InForce] = {}  #: By dotted key; job parameters one by one, ``work.params.lr``.
    ended: float | None = None
    seconds: float = 0.0
    proof: tuple[Finding, ...] = ()  #: Empty: it had no time limit, was cut short, or is older than this field.


RUNS = Records("run", RunRecord, id="id", order=("number",), limit=_RUNS_MAX)


async def begin_run(store: Store, effective: EffectiveSettings, *, began: float, pid: int, minutes: float) -> RunRecord:
    """Record that a run with the settings *effective* begins; its record, which :func:`end_run` completes."""
    policy = effective.settings.policy
    async with store.begin() as tx:
        runs = await RUNS.all(tx)
        number = runs[-1].number + 1 if runs else 1
        run = RunRecord(
            id=f"r{number}", number=number, began=began, pid=pid, seed=policy.seed, variants=policy.variants
        )
        run = changed(run, minutes=minutes, settings=effective.in_force())
        await RUNS.delete(tx, [old.id for old in runs[: len(runs) - _RUNS_MAX + 1]])
        await RUNS.put(tx, [run])
    return run


async def end_run(store: Store, run: RunRecord, *, ended: float, seconds: float, proof: Sequence[Finding] = ()) -> None:
    """Record that *run* has ended in good order after *seconds*, and what its *proof* showed."""
    async with store.begin() as tx:
        await RUNS.put(tx, [changed(run, ended=ended, seconds=seconds, proof=tuple(proof))])
