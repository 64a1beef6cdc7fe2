"""Auto-trigger: the variable applies to programs that embed their node, never to ``ringrift run``."""

from pathlib import Path

import pytest

from ringrift.cli.command import parse_overrides
from ringrift.cli.main import build_parser
from ringrift.cli.run_plan import make_plan
from ringrift_compat.variables import read_settings

VARIABLE = "COORDINATOR_AUTO_TRIGGER_PIPELINE"


def run_is_automatic(*arguments: str) -> bool:
    """Return whether ``ringrift run`` with these *arguments* continues from stage to stage."""
    options = build_parser().parse_args(["run", "--set", "work.workload=fake", *arguments])
    return make_plan(options, parse_overrides(options.set)).settings.policy.auto


@pytest.mark.parametrize(("text", "auto"), [("true", True), ("0", False), (None, True)])
def test_the_variable_sets_the_policy(text: str | None, auto: bool) -> None:
    """The policy records its source, so that a default differs from an explicit value."""
    effective = read_settings(environ={} if text is None else {VARIABLE: text})

    assert effective.settings.policy.auto is auto
    assert ("policy.auto" in effective.origins) == (text is not None)


def test_a_run_is_automatic_unless_disabled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only an explicit command-line option turns auto-trigger off."""
    monkeypatch.setenv("RINGRIFT_HOME", str(tmp_path))
    monkeypatch.setenv(VARIABLE, "false")

    assert run_is_automatic()
    assert not run_is_automatic("--set", "policy.auto=false")
