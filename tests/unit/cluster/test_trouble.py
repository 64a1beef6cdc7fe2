"""Errors and recoveries are written down within limits, and recovery is not tried over and over."""

from pathlib import Path

import pytest

from ringrift.cluster import trouble
from ringrift.cluster.trouble import KEPT_MAX, RECENT_SECONDS, Recovery, RecoveryLimits, Reported
from unit.work.world import World, play

LIMITS = RecoveryLimits()


def tried(time: float, helped: bool | None = False, target: str = "n1") -> Recovery:
    """Something that was tried."""
    return Recovery(id=f"{time:09.1f}", target=target, action="restart_job", time=time, helped=helped)


def may(now: float, *tries: Recovery) -> bool:
    """Whether something may be tried with n1."""
    return trouble.may_recover("n1", tries, 3, now, LIMITS).allowed


def test_the_oldest_errors_go(tmp_path: Path) -> None:
    """Only so many are remembered, in the order in which they were said, and texts have an end."""

    async def story(world: World) -> None:
        for number in range(KEPT_MAX + 5):
            said = Reported(
                id=world.ids.next(), component="trainer", error=f"{number}" if number else "x" * 9999,
                severity="error", node="here", time=world.clock.now(),
            )  # fmt: skip
            async with world.store.begin() as tx:
                await trouble.report(tx, said)
                if not number:
                    [first] = await trouble.errors(tx)
                    assert len(first.error) == trouble.ERROR_CHARACTERS_MAX
        async with world.store.read() as view:
            found = await trouble.errors(view)

        assert [one.error for one in found] == [str(number) for number in range(5, KEPT_MAX + 5)]

    play(tmp_path, story)


def test_what_was_tried_is_written_down(tmp_path: Path) -> None:
    """It is read as it was said, beside the errors."""

    async def story(world: World) -> None:
        async with world.store.begin() as tx:
            await trouble.tried(tx, tried(1.0))
            await trouble.tried(tx, tried(2.0, helped=True))
        async with world.store.read() as view:
            assert await trouble.recoveries(view) == [tried(1.0), tried(2.0, helped=True)]
            assert await trouble.errors(view) == []

    play(tmp_path, story)


def test_only_recent_errors_count() -> None:
    """An hour later an error is history; one from a clock that runs ahead is not."""
    found = trouble.lately([tried(0.0), tried(1.0), tried(9999.0)], RECENT_SECONDS)

    assert [one.time for one in found] == [1.0, 9999.0]


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
    """Five minutes between tries, an hour after three in vain; what helped ends the count, other nodes do not count."""
    assert may(now, *tries) is allowed


def test_a_refusal_says_until_when() -> None:
    """The verdict has the rule and the moment from which on it may be tried again."""
    verdict = trouble.may_recover("n1", [tried(100.0)], 1, 200.0, LIMITS)

    assert not verdict.allowed
    assert "a person has to look" in verdict.rule
    assert verdict.until == 3700.0


def test_one_step_follows_the_other() -> None:
    """The last step is repeated while tries are left, and behind the long pause the first one comes again."""
    steps = [trouble.next_step(tries, 3, ("restart", "reboot")) for tries in range(5)]

    assert steps == ["restart", "reboot", "reboot", "restart", "reboot"]
