"""Whether one stage starts the next: the variable is for programs that are their own node, never for a run."""

from pathlib import Path

import pytest

from ringrift.cli.environment import effective
from ringrift.cli.main import given, parser
from ringrift.cli.run import prepared

VARIABLE = "COORDINATOR_AUTO_TRIGGER_PIPELINE"


def run_is_automatic(*arguments: str) -> bool:
    """Whether ``ringrift run`` with these *arguments* goes on from stage to stage."""
    options = parser().parse_args(["run", "--set", "work.workload=fake", *arguments])
    return prepared(options, given(options.set)).settings.policy.auto


@pytest.mark.parametrize(("text", "auto"), [("true", True), ("0", False), (None, True)])
def test_the_variable_sets_the_policy(text: str | None, auto: bool) -> None:
    """It tells where the value came from, so that a default can be told from what somebody said."""
    found = effective(environ={} if text is None else {VARIABLE: text})

    assert found.settings.policy.auto is auto
    assert ("policy.auto" in found.origins) == (text is not None)


def test_a_run_always_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only who says so on its command line runs without auto-trigger."""
    monkeypatch.setenv("RINGRIFT_HOME", str(tmp_path))
    monkeypatch.setenv(VARIABLE, "false")

    assert run_is_automatic()
    assert not run_is_automatic("--set", "policy.auto=false")
