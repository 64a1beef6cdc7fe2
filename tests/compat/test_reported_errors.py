"""What programs report is stored within limits, where the core reads it."""

from pathlib import Path

from ringrift.cluster.recovery import (
    _RECENT_SECONDS,
    ERRORS,
    RECOVERIES,
    STORED_MAX,
    Attempt,
    ErrorReport,
    recent_errors,
)
from ringrift_compat.health.system_health import _ERROR_CHARACTERS_MAX, _record_attempt, _record_error
from unit.work.world import World, play


def report(number: int, error: str) -> ErrorReport:
    """An error at this time."""
    id, time = f"{number:06}", float(number)
    return ErrorReport(id=id, component="trainer", error=error, severity="error", node="n1", time=0.0, tick=time)


def test_the_oldest_errors_go(tmp_path: Path) -> None:
    """A bounded number is stored, in the order of their reports, and texts are cut; an hour later they do not count.

    Nor do those of before the machine was started again, whose clock began at zero; the wall clock decides nothing.
    """

    async def story(world: World) -> None:
        async with world.store.begin() as tx:
            await _record_error(tx, report(0, "x" * 9999))
            [first] = await ERRORS.all(tx)
            assert len(first.error) == _ERROR_CHARACTERS_MAX
            for number in range(1, STORED_MAX + 5):
                await _record_error(tx, report(number, str(number)))
        async with world.store.read() as view:
            reports = await ERRORS.all(view)
            recent = await recent_errors(view, _RECENT_SECONDS + 9.0)
            assert await recent_errors(view, 3.0) == []

        assert [row.error for row in reports] == [str(number) for number in range(5, STORED_MAX + 5)]
        assert [row.error for row in recent] == [str(number) for number in range(10, STORED_MAX + 5)]

    play(tmp_path, story)


def test_attempts_of_programs_stand_in_the_record_of_their_subject(tmp_path: Path) -> None:
    """Each is stored behind the others, within a limit, and the record changes with each."""

    async def story(world: World) -> None:
        async with world.store.begin() as tx:
            for number in range(20):
                await _record_attempt(
                    tx, "node:n1", Attempt(step="reboot_node", by="heal", time=float(number), helped=False)
                )
        async with world.store.read() as view:
            [recovery] = await RECOVERIES.all(view)

        assert [step.time for step in recovery.attempts] == [float(number) for number in range(4, 20)]
        assert (recovery.number, recovery.since) == (20, 0.0)

    play(tmp_path, story)
