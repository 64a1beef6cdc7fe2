"""Errors and recoveries are recorded within limits, and recovery is not repeated without pauses."""

from pathlib import Path

import pytest

from ringrift.cluster import error_reports
from ringrift.cluster.error_reports import _RECENT_SECONDS, _STORED_MAX, ErrorReport, Recovery, RecoveryLimits
from unit.work.world import World, play

LIMITS = RecoveryLimits()


def tried(time: float, helped: bool | None = False, target: str = "n1") -> Recovery:
    """Something that was tried."""
    return Recovery(id=f"{time:09.1f}", target=target, action="restart_job", time=time, helped=helped)


def may(now: float, *tries: Recovery) -> bool:
    """Return the verdict on a recovery attempt for n1."""
    return error_reports.may_recover("n1", tries, 3, now, LIMITS).allowed


def test_the_oldest_errors_go(tmp_path: Path) -> None:
    """A bounded number is stored, in the order of their reports, and texts are cut."""

    async def story(world: World) -> None:
        for number in range(_STORED_MAX + 5):
            report = ErrorReport(
                id=world.ids.next(),
                component="trainer",
                error=f"{number}" if number else "x" * 9999,
                severity="error",
                node="here",
                time=world.clock.now(),
            )
            async with world.store.begin() as tx:
                await error_reports.record_error(tx, report)
                if not number:
                    [first] = await error_reports.ERRORS.all(tx)
                    assert len(first.error) == error_reports.ERROR_CHARACTERS_MAX
        async with world.store.read() as view:
            reports = await error_reports.ERRORS.all(view)

        assert [report.error for report in reports] == [str(number) for number in range(5, _STORED_MAX + 5)]

    play(tmp_path, story)


def test_recovery_attempts_are_recorded(tmp_path: Path) -> None:
    """An attempt is stored beside the errors and read back unchanged."""

    async def story(world: World) -> None:
        async with world.store.begin() as tx:
            await error_reports.record_recovery(tx, tried(1.0))
            await error_reports.record_recovery(tx, tried(2.0, helped=True))
        async with world.store.read() as view:
            assert await error_reports.RECOVERIES.all(view) == [tried(1.0), tried(2.0, helped=True)]
            assert await error_reports.ERRORS.all(view) == []

    play(tmp_path, story)


def test_only_recent_errors_count() -> None:
    """An hour later an error is history; one from a clock that runs ahead is not."""
    reports = error_reports.recent([tried(0.0), tried(1.0), tried(9999.0)], _RECENT_SECONDS)

    assert [report.time for report in reports] == [1.0, 9999.0]


@pytest.mark.parametrize(
    ("now", "tries", "allowed"),
    [
        (0.0, (), True),
        (299.0, (tried(0.0),), False),
        (300.0, (tried(0.0),), True),
        (299.0, (tried(0.0, helped=True),), False),
        (299.0, (tried(0.0, target="n2"),), True),
        (900.0, (tried(0.0), tried(300.0), tried(600.0)), False),
        (4199.0, (tried(0.0), tried(300.0), tried(600.0)), False),
        (4200.0, (tried(0.0), tried(300.0), tried(600.0)), True),
        (900.0, (tried(0.0), tried(300.0, helped=True), tried(600.0)), True),
        (900.0, (tried(0.0), tried(300.0, helped=None), tried(600.0)), False),
        (0.0, (tried(9999.0),), False),
    ],
)
def test_recovery_is_tried_with_pauses_and_not_for_ever(now: float, tries: tuple[Recovery, ...], allowed: bool) -> None:
    """Five minutes between attempts, an hour after three failures; a success ends the count, other nodes do not
    count."""
    assert may(now, *tries) is allowed


def test_a_refusal_has_the_time_of_the_next_attempt() -> None:
    """The verdict has the rule and the time from which it may be tried again."""
    verdict = error_reports.may_recover("n1", [tried(100.0)], 1, 200.0, LIMITS)

    assert not verdict.allowed
    assert "an operator has to look" in verdict.rule
    assert verdict.until == 3700.0


def test_recovery_steps_follow_in_order() -> None:
    """The last step is repeated while attempts are left, and after the long pause the first one comes again."""
    steps = [error_reports.next_step(tries, 3, ("restart", "reboot")) for tries in range(5)]

    assert steps == ["restart", "reboot", "reboot", "restart", "reboot"]
