"""The real workload, small: it learns, proves or names what missed, stops in good order and can be played against."""

import json
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.processes import Home, reached
from ringrift.pipeline.line import Line

# The gate lets nearly every candidate pass at once, so that there is something to prove in so short a time.
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
blocks_min = 4
blocks_max = 64
elo_0 = -200.0
elo_1 = 0.0
[policy.budget]
share = 0.5
start = 1.0
"""
VARIANT = "hex8_2p"
SECONDS_MAX = 110.0


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Home]:
    """A home where every game takes milliseconds; none of its processes is left running afterwards."""
    made = Home(tmp_path / "home", TINY)
    yield made
    made.clear()


def test_a_timed_run_ends_with_a_verdict_and_three_reports(tiny: Home) -> None:
    """Exit 0 or 3, in agreement with the claims in the report; text, JSON and page agree on every promotion."""
    code, output = tiny.run("run", "--minutes", "0.3", "--variants", VARIANT, "--seed", "5", seconds=SECONDS_MAX)

    report = json.loads((tiny.path / "report.json").read_text())
    page = (tiny.path / "report.html").read_text()
    [finding] = report["proof"]
    promoted = [promotion for promotion in report["decisions"][VARIANT] if promotion["promoted"]]
    assert code == (0 if finding["met"] else 3), output[-3000:]
    assert ("PROVEN: all 1 claims hold" if finding["met"] else "NOT PROVEN: 1 of 1") in output
    assert report["about"]["seed"] == 5
    assert (report["about"]["workload"], report["about"]["params"]["threads"]) == ("reversi", 1)
    assert promoted[0]["generation"] == 0
    assert all(promotion["model"] in page and promotion["model"][:10] in output for promotion in promoted)
    assert finding["n"] in (0, 256)
    live = "SELECT count(*) FROM jobs WHERE state IN ('ready', 'claimed') AND key LIKE 'match:proof:%'"
    assert tiny.ask(live) == [(0,)]
    assert tiny.orphans() == []


@dataclass(frozen=True)
class Stopped:
    """A run that was stopped, and what its process had loaded until then."""

    home: Home
    code: int
    output: str
    maps: str


def stopped(home: Home, holds: Callable[[Line], bool], number: int) -> Stopped:
    """Run until *holds* is true of the line, then send the signal *number*."""
    process = home.start("run", "--minutes", "30", "--variants", VARIANT)
    try:
        # There is a worker only once there is a store.
        reached(process, lambda: bool(home.orphans()) and any(holds(line) for line in home.lines().values()))
        maps = Path(f"/proc/{process.pid}/maps").read_text()
    finally:
        process.send_signal(number)
        output, _ = process.communicate(timeout=SECONDS_MAX / 2)
    return Stopped(home, process.returncode, output, maps)


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    """A run that Ctrl-C cut short after its first games.  Its home is never touched again."""
    home = Home(tmp_path_factory.mktemp("cut") / "home", TINY)
    return stopped(home, lambda line: line.counts.games > 0, signal.SIGINT)


def test_a_run_that_is_cut_short_goes_on(cut: Stopped, tmp_path: Path) -> None:
    """Ctrl-C exits 130 and gives every job back; the next run has the same seed, the same models and the rest of it."""
    before = cut.home.lines()[VARIANT]
    home = cut.home.copied(tmp_path / "home")

    again = stopped(home, lambda line: line.counts.games > before.counts.games, signal.SIGTERM)

    assert cut.code == 130, cut.output
    assert '"ringrift run" goes on' in cut.output
    assert cut.home.ask("SELECT count(*) FROM jobs WHERE state = 'claimed'") == [(0,)]
    assert again.code == 143, again.output[-3000:]
    assert seed_line(cut.output) == seed_line(again.output)
    assert home.lines()[VARIANT].counts.games > before.counts.games
    assert (cut.home.orphans(), home.orphans()) == ([], [])


def seed_line(output: str) -> str:
    """The line of a run about its seed."""
    return next(line for line in output.splitlines() if line.startswith("seed ")).split(",")[0]


def test_the_control_process_stays_light(cut: Stopped) -> None:
    """The process that runs the loop loads neither numpy nor torch; its workers do."""
    assert "python" in cut.maps
    assert not [name for name in ("numpy", "numba", "torch") if f"/{name}/" in cut.maps]


def played(home: Home, *arguments: str, moves: str) -> tuple[int, str]:
    """``ringrift play`` with *moves* on its standard input: exit code and output."""
    process = home.start("play", *arguments, typed=True)
    output, _ = process.communicate(moves, timeout=SECONDS_MAX)
    return process.returncode, output


@pytest.mark.parametrize("variant", ["square8_2p", "hex8_3p"])
def test_a_person_plays_a_baseline_through_a_pipe(tiny: Home, variant: str) -> None:
    """Cells, hints, undo and invalid input are answered; the end of the input ends the game."""
    code, output = played(tiny, variant, "--model", "greedy", "--seat", "2", moves="hint\nundo\nnonsense\nquit\n")

    assert code == 0, output
    assert f"{variant} against greedy; you have seat 2 of {variant[-2]}." in output
    assert "seat 1 plays " in output
    assert "it would play " in output
    assert "no move to take back" in output
    assert "'nonsense' is not a legal move" in output
    assert output.count("seat 2 (you) >") >= 3


def test_a_person_plays_the_champion(cut: Stopped, tiny: Home) -> None:
    """The command works once there is a champion; before, it prints what to do."""
    none, absent = played(tiny, VARIANT, moves="")

    code, output = played(cut.home, VARIANT, "--sims", "4", moves="hint\n")

    champion = cut.home.lines()[VARIANT].champion
    assert none == 1
    assert "no store at" in absent
    assert champion is not None
    assert code == 0, output
    assert f"against champion {champion[:10]}" in output
    assert "it would play " in output


def test_wrong_opponents_are_refused_by_name(tiny: Home) -> None:
    """An unknown seat, an unknown baseline, a file that is no model."""
    (tiny.path / "no.model").write_bytes(b"x" * 100)

    seat, first = played(tiny, VARIANT, "--seat", "3", moves="")
    name, second = played(tiny, VARIANT, "--model", "stockfish", moves="")
    file, third = played(tiny, VARIANT, "--model", str(tiny.path / "no.model"), moves="")

    assert (seat, name, file) == (2, 2, 2)
    assert "--seat 3 is not valid" in first
    assert "unknown player 'stockfish'" in second
    assert "--model" in third
