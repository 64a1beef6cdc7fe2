"""Decisions do not compare wall times: a wall clock jumps, and how long something lasted is what an observer saw."""

import ast
from collections.abc import Iterator

from tidy.source import Finding, Source, at, expect_none, product

R = "src/ringrift/"
DECIDE = (
    R + "pipeline/",
    R + "evaluation/",
    R + "cluster/",
    R + "work/",
    R + "daemons/",
    R + "supervision/",
    R + "bus/",
)
WALL = ("now", "at")  # what the rules call a wall time that they are given
# The places that may, each with its reason.
ALLOWED = {
    (R + "pipeline/line.py", "overdue"): "an alert for people: a false one costs a look",
    (
        R + "pipeline/signals.py",
        "active_effects",
    ): "effects on priorities end by themselves",
    (R + "pipeline/signals.py", "velocity_of"): "Elo an hour, as people read it",
    (R + "work/run_states.py", "is_in_force"): "a person set the time of its end",
    (R + "work/run_states.py", "set_run_state"): "a person sets the time of its end",
    (R + "work/tasks.py", "end_tasks"): "the seconds that an event shows",
    (R + "bus/handlers.py", "_check_workers"): "the clock of the event loop, which never jumps",
    (R + "daemons/beat.py", "beat"): "the wall clock itself is watched",
    (R + "daemons/beat.py", "look"): "the wall clock itself is watched",
    (R + "pipeline/metrics.py", "_promotion_seconds"): "an estimate for people",
    (R + "work/durations.py", "_load"): "for people: what was done in the last minutes decides nothing",
    (R + "work/durations.py", "_with_minutes"): "for people: what was done in the last minutes decides nothing",
    (R + "work/durations.py", "_with_run"): "for people: what was done in the last minutes decides nothing",
    (R + "daemons/sweep.py", "remove"): "files have wall times; what is needed is pinned, however old it seems",
    (R + "daemons/sweep.py", "drop_parts"): "files have wall times; a part that went is brought again from its start",
    (R + "daemons/consolidate.py", "consolidate"): "files have wall times; a packed one can be read all the same",
    (R + "cluster/keys.py", "store_token"): "a person set the time of its end, which is minutes away",
    (R + "cluster/keys.py", "_was_used"): "a person set the time of its end, which is minutes away",
    (R + "cluster/keys.py", "is_in_force"): "a person set the time of its end",
    (R + "daemons/backup.py", "_is_due"): "a clock that jumps costs one backup more, and never one that was due",
    (R + "pipeline/retention.py", "_judge"): "files have wall times; what is needed is pinned, however old it seems",
}


def wall_times(source: Source) -> Iterator[Finding]:
    """Differences and comparisons of a wall time in a module that decides."""
    if not source.below(*DECIDE):
        return
    for function in (node for node in source.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
        if (source.path, function.name) in ALLOWED:
            continue
        for node in ast.walk(function):
            operands: list[ast.expr] = []
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
                operands = [node.left, node.right]
            elif isinstance(node, ast.Compare):
                operands = [node.left, *node.comparators]
            if any(_is_wall(operand) for operand in operands):
                yield at(source, node, f"{function.name} compares a wall time: let an observer measure (StallDetector)")


def _is_wall(operand: ast.expr) -> bool:
    if isinstance(operand, ast.Call):
        return isinstance(operand.func, ast.Attribute) and operand.func.attr == "now"
    return isinstance(operand, ast.Name) and operand.id in WALL


def test_decisions_do_not_compare_wall_times() -> None:
    """Wall time is for people and records."""
    expect_none(wall_times, product())


def test_the_rule_notices() -> None:
    """A difference, a comparison and a direct read."""
    lines = ("return now - row.since > 5", "return row.until > now", "return clock.now() - since", "return at < until")
    for line in lines:
        assert list(wall_times(Source(R + "pipeline/x.py", f"def f(now, at, row, clock, since, until):\n    {line}\n")))
    assert not list(wall_times(Source(R + "pipeline/x.py", "def f(now):\n    return Verdict(since=now)\n")))
