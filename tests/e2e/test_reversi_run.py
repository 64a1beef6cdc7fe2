"""The real workload, small: it learns, proves or says what missed, stops in good order and can be played against."""

import asyncio
import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.processes import Home
from ringrift.pipeline.line import Line
from waiting import wait_until

TINY = """
[work]
rescue_seconds = 0.2
grace_seconds = 10.0
[work.params]
sims = 2
channels = 4
blocks = 1
steps = 20
[cluster]
beat_seconds = 0.5
elect_seconds = 0.3
role_seconds = 1.2
[policy]
games_per_batch = 32
games_per_export = 64
blocks_per_job = 16
[policy.gate]
blocks_max = 64
elo_1 = 200.0
"""
VARIANT = "hex8_2p"
SECONDS_MAX = 110.0


@pytest.fixture
def tiny(tmp_path: Path) -> Home:
    """A home where every game takes milliseconds."""
    return Home(tmp_path / "home", TINY)


def test_a_timed_run_ends_with_a_verdict_and_three_reports(tiny: Home) -> None:
    """Exit 0 or 3, as the claims in the report say; text, JSON and page agree on every promotion."""
    code, output = tiny.run("run", "--minutes", "0.4", "--variants", VARIANT, "--seed", "5", seconds=SECONDS_MAX)

    report = json.loads((tiny.path / "report.json").read_text())
    page = (tiny.path / "report.html").read_text()
    [finding] = report["proof"]
    promoted = [one for one in report["decisions"][VARIANT] if one["promoted"]]
    assert code == (0 if finding["met"] else 3), output[-3000:]
    assert ("SHOWN: all 1 claims hold" if finding["met"] else "NOT SHOWN: 1 of 1") in output
    assert report["about"]["seed"] == 5
    assert (report["about"]["workload"], report["about"]["params"]["threads"]) == ("reversi", 1)
    assert promoted[0]["generation"] == 0
    assert all(one["model"] in page and one["model"][:10] in output for one in promoted)
    assert finding["n"] in (0, 256)
    assert tiny.ask("SELECT count(*) FROM jobs WHERE state IN ('ready', 'claimed') AND key LIKE 'proof:%'") == [(0,)]
    assert tiny.orphans() == []


def until(home: Home, holds: Callable[[Line], bool], number: int) -> tuple[int, str]:
    """Run until *holds* is true of the line, then send the signal *number*: exit code and output."""
    process = home.start("run", "--minutes", "30", "--variants", VARIANT)

    def reached() -> bool:
        # There is a worker only once there is a store.
        return bool(home.orphans()) and any(holds(line) for line in home.lines().values())

    try:
        asyncio.run(wait_until(reached, SECONDS_MAX / 2))
    finally:
        process.send_signal(number)
        output, _ = process.communicate(timeout=SECONDS_MAX / 2)
    return process.returncode, output


def test_a_run_that_is_cut_short_goes_on(tiny: Home) -> None:
    """Ctrl-C exits 130 and gives every job back; the next run has the same seed, the same models and the rest of it."""
    stopped, output = until(tiny, lambda line: line.counts.games > 0, signal.SIGINT)
    before = tiny.lines()[VARIANT]
    claimed = tiny.ask("SELECT count(*) FROM jobs WHERE state = 'claimed'")

    code, again = until(tiny, lambda line: line.counts.games > before.counts.games, signal.SIGTERM)

    assert stopped == 130, output
    assert "run again to go on" in output
    assert claimed == [(0,)]
    assert code == 143, again[-3000:]
    assert seed_line(output) == seed_line(again)
    assert tiny.lines()[VARIANT].counts.games > before.counts.games
    assert tiny.orphans() == []


def seed_line(output: str) -> str:
    """What a run says of its seed."""
    return next(line for line in output.splitlines() if line.startswith("seed ")).split(",")[0]


def test_the_control_process_stays_light(tiny: Home) -> None:
    """What runs the loop loads neither numpy nor torch; its workers do."""
    process = tiny.start("run", "--minutes", "30", "--variants", VARIANT)
    asyncio.run(wait_until(lambda: bool(tiny.orphans()), SECONDS_MAX / 2))
    loaded = Path(f"/proc/{process.pid}/maps").read_text()

    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=SECONDS_MAX / 2)

    assert process.returncode == 143, output
    assert not [name for name in ("numpy", "numba", "torch") if f"/{name}/" in loaded]


def played(home: Home, *arguments: str, moves: str) -> tuple[int, str]:
    """``ringrift play`` with *moves* on its standard input: exit code and output."""
    process = home.start("play", *arguments, typed=True)
    output, _ = process.communicate(moves, timeout=SECONDS_MAX)
    return process.returncode, output


@pytest.mark.parametrize("variant", ["square8_2p", "hex8_3p"])
def test_a_person_plays_a_baseline_through_a_pipe(tiny: Home, variant: str) -> None:
    """Cells, hints, undo and nonsense are answered; who has no more to say leaves."""
    code, output = played(tiny, variant, "--model", "greedy", "--seat", "2", moves="hint\nundo\nnonsense\nquit\n")

    assert code == 0, output
    assert f"{variant} against greedy; you are O in seat 2." in output
    assert "X plays " in output
    assert "it would play " in output
    assert "there is nothing to take back" in output
    assert "'nonsense' is no legal move" in output
    assert output.count("O to move >") >= 3


def test_a_person_plays_the_champion(tiny: Home) -> None:
    """As soon as there is one; before, the command says what to do."""
    none, absent = played(tiny, VARIANT, moves="")
    until(tiny, lambda line: line.champion is not None, signal.SIGINT)

    code, output = played(tiny, VARIANT, "--sims", "4", moves="hint\n")

    champion = tiny.lines()[VARIANT].champion
    assert none == 1
    assert "there is no store at" in absent
    assert champion is not None
    assert code == 0, output
    assert f"against champion {champion[:10]}" in output
    assert "and expects " in output


def test_wrong_opponents_are_refused_by_name(tiny: Home) -> None:
    """A seat that is not there, a baseline that nobody knows, a file that is no model."""
    (tiny.path / "no.model").write_bytes(b"x" * 100)

    seat, first = played(tiny, VARIANT, "--seat", "3", moves="")
    name, second = played(tiny, VARIANT, "--model", "stockfish", moves="")
    file, third = played(tiny, VARIANT, "--model", str(tiny.path / "no.model"), moves="")

    assert (seat, name, file) == (2, 2, 2)
    assert "--seat = 3" in first
    assert "unknown player 'stockfish'" in second
    assert "--model" in third
