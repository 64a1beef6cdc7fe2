"""Brakes on a real loop, set from another process: jobs running, started and ended, before, during and after."""

import json
import signal
import subprocess
from dataclasses import dataclass

import pytest

from e2e.processes import PATIENCE_SECONDS, QUICK, Home, kill, outlived, reached

VARIANTS = ("hex8_2p", "hex8_3p")
WATCH_SECONDS = 1.5
"""How long a test watches that nothing starts: many times what a job takes."""
BRAKES = (("pause",), ("drain",), ("stop",), ("stop", "--now"))
SLOW = "[work.params]\nfake_slow_seconds = {}\n"
CLUSTER = "1"
SCOPES = {
    (): (CLUSTER, ""),
    ("--variant", VARIANTS[0]): (f"variant = '{VARIANTS[0]}'", f"variant = '{VARIANTS[1]}'"),
    ("--stage", "train"): ("kind = 'train'", "kind = 'play'"),
}
"""The options of a scope → the jobs inside it, and jobs outside it that go on."""


@dataclass(frozen=True)
class Counts:
    """Jobs of a scope: those that run, how often one was started, and how many have ended with a result."""

    running: int
    started: int
    ended: int


def count(home: Home, where: str) -> Counts:
    """Count the jobs *where* in one snapshot; the fence of a job is the number of its starts."""
    query = f"SELECT sum(state = 'claimed'), sum(fence), sum(state = 'done') FROM jobs WHERE {where}"
    [row] = home.ask(query)
    return Counts(*(int(number or 0) for number in row))


def start(home: Home, seconds: float, stage: str = "") -> "subprocess.Popen[str]":
    """A loop over two variants whose jobs take *seconds*, or only those of *stage*, once it has promoted."""
    only = f"fake_stage = '{stage}'\n" if stage else ""
    (home.path / "ringrift.toml").write_text(QUICK + SLOW.format(seconds) + only)
    process = home.start("run", "--iterations", "0", "--variants", ",".join(VARIANTS))
    reached(process, lambda: home.has("SELECT 1 FROM records WHERE kind = 'line'") and has_champions(home))
    return process


def has_champions(home: Home) -> bool:
    """Whether every line has a champion."""
    lines = home.lines()
    return set(lines) == set(VARIANTS) and all(line.champion for line in lines.values())


def champions(home: Home) -> dict[str, tuple[str | None, int]]:
    """The champion of every line."""
    return {line.variant: (line.champion, line.iteration) for line in home.lines().values()}


def end(process: "subprocess.Popen[str]") -> str:
    """Stop the loop in good order; its output."""
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    return output


@pytest.mark.parametrize("scope", SCOPES, ids=lambda scope: " ".join(scope) or "cluster")
def test_nothing_starts_in_a_braked_scope_until_it_is_resumed(home: Home, scope: tuple[str, ...]) -> None:
    """Under each brake running jobs end, none is started, other scopes go on; after resume jobs start and end."""
    inside, outside = SCOPES[scope]
    process = start(home, 0.2)
    for brake in BRAKES:
        reached(process, lambda: count(home, inside).running > 0)
        before = count(home, inside)

        code, output = home.run(*brake, *scope, "--reason", "the test wants it")
        assert code == 0, output
        reached(process, lambda: count(home, inside).running == 0)
        during, pointers = count(home, inside), champions(home)
        if outside:
            beside = count(home, outside)
            reached(process, lambda past=beside: count(home, outside).started > past.started)
        assert outlived(process, WATCH_SECONDS)

        assert count(home, inside) == during, brake
        assert during.started >= before.started > 0
        assert during.ended >= before.ended
        if scope != ("--stage", "train"):
            braked = VARIANTS[:1] if scope else VARIANTS
            assert {name: champions(home)[name] for name in braked} == {name: pointers[name] for name in braked}

        code, output = home.run("resume", *scope)
        assert code == 0, output
        reached(process, lambda past=during: count(home, inside).started > past.started)
        reached(process, lambda past=during: count(home, inside).ended > past.ended)
    output = end(process)
    assert home.unbalanced() == []
    assert output.count("BRAKE: ") >= len(BRAKES)
    assert output.count(" runs again by ") >= len(BRAKES)


def test_an_emergency_stops_running_jobs_within_their_grace_and_the_weaker_brakes_do_not(home: Home) -> None:
    """Long exports go on under pause, drain and stop; stop --now gives them back, with no attempt used up."""
    process = start(home, 60.0, "export")
    exporting = "kind = 'export'"
    reached(process, lambda: count(home, exporting).running == len(VARIANTS))
    before = count(home, exporting)

    for brake in BRAKES[:3]:
        assert home.run(*brake)[0] == 0
        assert outlived(process, WATCH_SECONDS / 3)
        assert count(home, exporting) == before, brake
    code, output = home.run("stop", "--now", "--reason", "smoke")
    assert code == 0, output
    assert "asked to stop, killed after 2 s (work.grace_seconds)" in output
    reached(process, lambda: count(home, CLUSTER).running == 0)

    after = count(home, exporting)
    assert (after.started, after.ended) == (before.started, before.ended)
    assert home.ask(f"SELECT DISTINCT attempts FROM jobs WHERE {exporting} AND state = 'ready'") == [(0,)]
    assert home.ask("SELECT count(*) FROM jobs WHERE state IN ('dead', 'failed')") == [(0,)]
    assert outlived(process, WATCH_SECONDS)
    assert count(home, CLUSTER).running == 0
    assert home.run("resume")[0] == 0
    reached(process, lambda: count(home, exporting).started > after.started)
    home.run("stop", "--now")
    end(process)


def test_every_view_names_the_brake_first(home: Home) -> None:
    """Status, why, health and the live view say who stopped what, why, until when and how to resume."""
    process = start(home, 0.05)
    home.run("pause", "--for", "2h", "--reason", "the disk is full")
    home.run("stop", "--variant", VARIANTS[0])

    _, reply = home.run("why", VARIANTS[0])
    first, *rest = reply.split("\n")
    assert first.startswith(f"{VARIANTS[0]} waits: variant {VARIANTS[0]} is stopped by "), reply
    assert f"  do:            ringrift resume --variant {VARIANTS[0]}" in rest
    assert any(line.startswith("BRAKE: cluster is paused since ") for line in rest)
    for words in (("status",), ("health",)):
        _, output = home.run(*words)
        first, second, *_ = output.split("\n")
        assert first.startswith("BRAKE: cluster is paused since "), output
        assert ": the disk is full (resume: ringrift resume)" in first
        assert second.startswith(f"BRAKE: variant {VARIANTS[0]} is stopped since ")
        assert second.endswith(f"(resume: ringrift resume --variant {VARIANTS[0]})")
    states = json.loads(home.run("status", "--json")[1])["run_states"]
    assert [state["scope"] for state in states] == ["cluster", f"variant:{VARIANTS[0]}"]

    code, output = home.run("resume")
    assert (code, output.count("still braked: ")) == (0, 1)
    other = f"variant = '{VARIANTS[1]}'"
    past = count(home, other)
    reached(process, lambda: count(home, other).started > past.started)
    assert "runs again" in home.run("resume", "--all")[1]
    assert "BRAKE" not in home.run("status")[1]
    end(process)


def test_a_brake_outlives_the_loop(home: Home) -> None:
    """Set while no loop runs, it binds the next one from its first moment, which says so; resume lets it go on."""
    process = start(home, 0.05)
    kill(process)
    assert home.run("stop")[0] == 0
    before, pointers = count(home, CLUSTER), champions(home)
    [(position,)] = home.ask("SELECT max(position) FROM log")

    process = home.start("run", "--iterations", "0", "--variants", ",".join(VARIANTS))
    opened = "SELECT 1 FROM log WHERE name = 'pipeline.opened' AND position > ?"
    reached(process, lambda: home.has(opened, position))
    assert outlived(process, WATCH_SECONDS)
    during = count(home, CLUSTER)
    assert (during.running, during.started) == (0, before.started)
    assert champions(home) == pointers
    assert home.run("resume")[0] == 0
    reached(process, lambda: count(home, CLUSTER).ended > during.ended)
    assert "BRAKE: cluster is stopped since " in end(process)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("pause", "--node", "zz"), "unknown node 'zz'; known: a, a-2, a-3"),
        (("stop", "--stage", "dance"), "unknown stage 'dance'; known: "),
        (("drain", "--variant", "chess_2p"), "chess"),
        (("pause", "--for", "soon"), "90s, 15m, 2h, 1d"),
        (("pause", "--node", "a", "--stage", "train"), "not allowed with"),
    ],
)
def test_bad_input_is_refused(played: Home, words: tuple[str, ...], text: str) -> None:
    """Exit code 2 and what is known, and nothing is braked."""
    code, output = played.run(*words)

    assert code == 2, output
    assert text in output
    assert played.ask("SELECT count(*) FROM records WHERE kind = 'run_states'") == [(0,)]
