"""Recovery climbs one ladder with rests and budgets up to a person."""

import pytest

from ringrift.cluster import recovery as rules
from ringrift.cluster.recovery import (
    ASK,
    QUARANTINE,
    RESTART_CHILD,
    RESTART_DAEMON,
    RETRY,
    Attempt,
    ErrorReport,
    Recovery,
    Trouble,
)
from ringrift.kernel.verdict import Verdict


def attempt(step: str, time: float = 0.0, helped: bool | None = False) -> Attempt:
    """A step that was taken."""
    return Attempt(step=step, by="heal", time=time, helped=helped)


def report(number: int, component: str = "trainer", error: str = "no loss", severity: str = "error") -> ErrorReport:
    """An error at this time."""
    return ErrorReport(
        id=f"{number:06}", component=component, error=error, severity=severity, node="n1", time=float(number)
    )


def climb(subject: str, *taken: str) -> list[str | None]:
    """The rungs of *subject*, if none of them helps and others have taken *taken*."""
    rungs: list[str | None] = []
    attempts: list[Attempt] = []
    while (step := rules.next_step(subject, attempts, taken)) is not None:
        rungs.append(step)
        attempts.append(attempt(step))
    return rungs


@pytest.mark.parametrize(
    ("subject", "taken", "rungs"),
    [
        ("daemon:n1/rate", (RETRY,), [RESTART_DAEMON, RESTART_DAEMON, ASK]),
        ("daemon:n1/rate", (RETRY, RESTART_DAEMON), [ASK]),
        ("node:n1", (RETRY, RESTART_CHILD), [RESTART_DAEMON, QUARANTINE, ASK]),
        ("node:n1", (RETRY, RESTART_CHILD, QUARANTINE), [RESTART_DAEMON, ASK]),
        ("job:hex8_2p/train", (), [RETRY, RESTART_CHILD, ASK]),
        ("job:hex8_2p/train", (RETRY, RESTART_CHILD), [ASK]),
        ("component:trainer", (RETRY,), [ASK]),
    ],
)
def test_each_subject_climbs_its_own_rungs_in_order(subject: str, taken: tuple[str, ...], rungs: list[str]) -> None:
    """Rungs that others took, or that cannot be taken, are left out; the last is a person, who is asked once."""
    assert climb(subject, *taken) == rungs


def test_a_step_that_helped_starts_the_ladder_anew() -> None:
    """The next trouble begins at the bottom."""
    attempts = [attempt(RESTART_DAEMON), attempt(QUARANTINE, helped=True)]

    assert rules.next_step("node:n1", attempts, (RETRY, RESTART_CHILD)) == RESTART_DAEMON


def test_attempts_of_any_kind_use_up_the_budget_of_a_subject() -> None:
    """After three failed ones of programs or people a person is asked, whatever they tried."""
    attempts = [attempt("reboot_node")] * 3

    assert rules.next_step("node:n1", attempts[:2], (RETRY, RESTART_CHILD)) == RESTART_DAEMON
    assert rules.next_step("node:n1", attempts, (RETRY, RESTART_CHILD)) == ASK


def judged(*attempts: Attempt, is_rested: bool = True, steps_left: int = 1) -> Verdict:
    """The verdict on the next step for a daemon after *attempts*."""
    trouble = Trouble(subject="daemon:n1/rate", error="no disk", taken=(RETRY,))
    recovery = Recovery(subject=trouble.subject, error="no disk", since=5.0, attempts=attempts)
    return rules.judge(trouble, recovery, is_rested=is_rested, steps_left=steps_left, now=9.0)


def test_a_step_waits_for_its_rest_and_for_the_budget_of_all() -> None:
    """Each refusal names the reason; asking a person is not limited."""
    assert (judged().allowed, judged().rule) == (True, RESTART_DAEMON)
    resting = judged(is_rested=False)
    assert (resting.allowed, resting.rule, resting.since) == (False, "rests, next: restart_daemon: no disk", 5.0)
    running = judged(attempt(RESTART_DAEMON, 7.0, None), is_rested=False)
    assert (running.allowed, running.since) == (False, 7.0)
    assert running.rule.startswith("restart_daemon is under way, next: restart_daemon")
    spent = judged(steps_left=0)
    assert (spent.allowed, spent.limit) == (False, rules.STEPS_PER_HOUR_MAX)
    assert "steps in the last hour" in spent.rule
    both = (attempt(RESTART_DAEMON), attempt(RESTART_DAEMON))
    assert (judged(*both, steps_left=0).allowed, judged(*both, steps_left=0).rule) == (True, ASK)
    refusal = judged(*both, attempt(ASK, helped=None))
    assert (refusal.allowed, refusal.rule) == (False, "a person was asked: no disk")


def test_a_component_is_in_trouble_after_errors_in_a_row() -> None:
    """A success ends the row; warnings are none; each component has a row of its own."""
    errors = [report(number) for number in range(3)]

    assert rules.failing_components(errors[:2]) == {}
    assert rules.failing_components(errors) == {"trainer": errors[-1]}
    assert rules.failing_components([*errors, report(3, error="")]) == {}
    assert rules.failing_components([*errors[:2], report(3, severity="warning")]) == {}
    assert rules.failing_components([*errors[:2], report(3, "exporter")]) == {}
