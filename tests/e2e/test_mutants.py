"""The runner of mutations: real copies of the tree, real runs of pytest, and every outcome there is."""

import pytest

from mutations import Mutation, Outcome, judge, run

LAUNCH = "src/ringrift_compat/daemons/launch.py"
STARTED = "tests/e2e/test_launch.py::test_without_a_home_nothing_runs"
VARIANT = "src/ringrift/kernel/variant.py"
PARSED = "tests/unit/kernel/test_variant.py::test_a_variant_survives_formatting_and_parsing"
PLAYERS = "players=int(match[2])"


def mutation(name: str, file: str, old: str, new: str, test: str) -> Mutation:
    """A mutation of no table."""
    return Mutation(name=name, area="trial", file=file, old=old, new=new, test=test)


@pytest.mark.timeout(300)
def test_every_outcome_is_told_from_the_others() -> None:
    """A test that starts a program notices a change of the copy; crashes and survivors are no kills."""
    codes = "ExitCode.WRONG_INPUT if is_input else ExitCode.FAILED"
    trials = [
        mutation("killed", LAUNCH, codes, "ExitCode.WRONG_INPUT if is_input else ExitCode.NOT_PROVEN", STARTED),
        mutation("killed by itself", VARIANT, PLAYERS, f"{PLAYERS} + 1", PARSED),
        mutation("survived", VARIANT, "e.g. hex8_2p", "e.g. hex8_3p", PARSED),
        mutation("invalid", VARIANT, PLAYERS, "players=match(2)", PARSED),
        mutation("no import", VARIANT, "import re", "import rex", PARSED),
        mutation("no test", VARIANT, PLAYERS, f"{PLAYERS} + 1", f"{PARSED}_again"),
    ]
    notes: list[str] = []

    def note(trial: Mutation, outcome: Outcome, line: str) -> None:
        notes.append(trial.name)

    words = {id.partition("/")[2]: outcome.word for id, outcome in run(trials, note=note).items()}

    assert sorted(notes) == sorted(trial.name for trial in trials)
    assert words == {
        "killed": "killed",
        "killed by itself": "killed",
        "survived": "survived",
        "invalid": "invalid",
        "no import": "invalid",
        "no test": "failing",
    }


@pytest.mark.parametrize(
    ("report", "word"),
    [
        ({"tried": 1, "failure": "AssertionError", "neighbour": "x"}, "killed"),
        ({"tried": 1, "failure": "AssertionError"}, "too broad"),
        ({"tried": 1}, "survived"),
        ({}, "survived"),
        ({"tried": 1, "failure": "TypeError", "crash": "TypeError", "neighbour": "x"}, "invalid"),
        ({"collection": "ImportError"}, "invalid"),
        ({"stopped": "no end within 9 s"}, "invalid"),
        ({"tried": 1, "failure": "AssertionError", "neighbour": "x", "outside": "/src/ringrift"}, "invalid"),
    ],
)
def test_an_outcome_follows_from_the_report(report: dict[str, object], word: str) -> None:
    """Only a failure by what the test asserts, beside a test that passes, in the copy, is a kill."""
    assert judge(report).word == word
