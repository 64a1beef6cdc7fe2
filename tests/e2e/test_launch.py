"""The documented launcher: runs a node in the foreground by option, shows its daemons, and ends cleanly."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from e2e.processes import Home

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 30.0
LINES_MAX = 50


def start(home: Home, option: str) -> "subprocess.Popen[str]":
    """The command as documented, from the root of the repository, without PYTHONPATH."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environ |= {"RINGRIFT_HOME": str(home.path), "RINGRIFT_NODE_ID": "a"}
    command, output = [sys.executable, "scripts/launch_daemons.py", option], subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, text=True, env=environ)


def run(home: Home, option: str) -> tuple[int, str]:
    """Exit code and output of a command that ends by itself."""
    process = start(home, option)
    output, _ = process.communicate(timeout=SECONDS_MAX)
    return process.returncode, output


def until(process: "subprocess.Popen[str]", words: Sequence[str]) -> list[str]:
    """The output until each of *words* began a line, in that order."""
    assert process.stdout is not None
    waiting, printed = list(words), []
    while waiting and len(printed) < LINES_MAX:
        printed.append(process.stdout.readline().rstrip())
        if printed[-1].strip().startswith(waiting[0]):
            waiting.pop(0)
    assert not waiting, printed
    return printed


def stopped(process: "subprocess.Popen[str]", number: signal.Signals) -> tuple[int, str]:
    """Exit code and last output after a signal."""
    process.send_signal(number)
    output, _ = process.communicate(timeout=SECONDS_MAX)
    return process.returncode, output


def test_all_is_a_coordinator_that_other_processes_can_list(home: Home) -> None:
    """It prints the daemons by category; another process lists them; a second coordinator is refused; then it ends."""
    launched = start(home, "--all")
    printed = until(launched, ["node a (full) runs", "core:", "sync:", "training:", "evaluation:", "resources:"])
    assert not [line for line in printed if "PROBLEM" in line]

    status, again = run(home, "--status"), run(home, "--all")
    code, words = stopped(launched, signal.SIGTERM)

    assert status[0] == 0, status
    assert "node a (full)" in status[1]
    assert {"beat", "work", "pipeline", "replicate"} <= set(status[1].split())
    assert again[0] == 1
    assert again[1].startswith("launch_daemons.py: role 'coordinator' is held by a (process ")
    assert (code, words.split()[-2:]) == (0, ["stopping", "stopped"])
    code, text = run(home, "--status")
    assert (code, "no running node" in text) == (1, True)


@pytest.mark.parametrize(
    ("option", "node", "runs", "rests"),
    [
        ("--sync", "a-sync_1 (coordinator)", {"beat", "work", "link_champions", "replicate"}, {"pipeline", "rate"}),
        ("--training-only", "a-training_1 (full)", {"beat", "work", "pipeline", "fill"}, {"replicate", "rate"}),
    ],
)
def test_a_category_runs_with_what_every_node_needs(
    home: Home, option: str, node: str, runs: set[str], rests: set[str]
) -> None:
    """Only its daemons start, and their roles are taken; Ctrl-C is a clean end."""
    launched = start(home, option)
    until(launched, [f"node {node} runs", "core:", option.strip("-").removesuffix("-only") + ":"])

    code, text = run(home, "--status")
    roles = {role for (role,) in home.ask("SELECT role FROM roles WHERE holder != ''")}
    ended = stopped(launched, signal.SIGINT)

    states = {line.split(" running ")[0].split()[-1] for line in text.splitlines() if " running " in line}
    assert (code, f"node {node}" in text) == (0, True), text
    assert runs <= states
    assert not rests & states
    assert roles <= states, "it holds no role that it does not fill"
    assert roles
    assert ended[0] == 0, ended[1]


def test_without_a_home_nothing_runs(home: Home) -> None:
    """Nothing is created by listing; --help explains, and no option at all is an error."""
    code, text = run(home, "--status")
    assert (code, "no store at" in text) == (1, True), text
    assert not home.database.exists()
    code, text = run(home, "--help")
    assert (code, "--training-only" in text) == (0, True)
    assert run(home, "--nothing")[0] == 2
