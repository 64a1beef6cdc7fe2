"""``ringrift gate``: error rates and costs before a run relies on them, and wrong input named."""

import json
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

import pytest

from e2e.processes import Home
from ringrift.cli.commands.gate import _PROGRESS_SECONDS, _with_progress
from ringrift.evaluation.trial import _Trial


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """An empty home."""
    return Home(tmp_path / "home", settings="")


def test_simulate_reports_the_error_rates_of_the_gate(home: Home) -> None:
    """Equal candidates hardly pass, much stronger ones do, and games are counted; no store is made."""
    code, output = home.run("gate", "simulate", "--players", "4", "--trials", "200", "--true", "0,100", "--json")

    assert code == 0, output
    result = json.loads(output)
    equal, strong = (cell["rates"] for cell in result["cells"])
    assert (equal["trials"], result["gate"]["elo_1"], result["players"]) == (200, 35.0, 4)
    assert equal["promoted"] < 0.15
    assert strong["promoted"] > 0.9
    assert 0 < strong["games"] < equal["games"]
    assert not home.database.exists()


def test_simulate_is_readable(home: Home) -> None:
    """The first line describes the simulation, and each true difference has a row with its results."""
    code, output = home.run(
        "gate",
        "simulate",
        "--kind",
        "anti-disaster",
        "--trials",
        "50",
        "--players",
        "3",
        "--in-flight",
        "20",
        "--slow",
        "1.3",
    )

    assert code == 0, output
    lines = output.splitlines()
    assert lines[0].startswith("gate -50 … +0 Elo, alpha 0.05, beta 0.01, 16 to 800 blocks; 3 players, 20 in flight")
    assert lines[1].split() == ["true", "Elo", "passed", "games", "surplus"]
    assert [line.split()[0] for line in lines[2:]] == ["-50", "+0"]


def test_the_configured_gate_is_simulated(home: Home) -> None:
    """Without other bounds the gate is that of the settings, so that it can be tried before it is used."""
    code, output = home.run("gate", "simulate", "--trials", "20", "--set", "policy.gate.elo_1=200", "--json")

    assert code == 0, output
    assert [cell["elo"] for cell in json.loads(output)["cells"]] == [0.0, 200.0]


def test_budget_reports_the_false_promotions_of_a_run(home: Home) -> None:
    """Runs with many equal candidates have fewer false promotions with the budget than without."""
    code, output = home.run(
        "gate", "budget", "--players", "4", "--runs", "1", "--tests", "400", "--null", "0.9", "--json"
    )

    assert code == 0, output
    [run] = json.loads(output)["runs"]
    assert run["false_share"] < run["plain_false_share"]
    assert run["power"] > 0.7


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--alpha", "2"), "setting policy.gate.alpha = 2.0 is not valid: must lie between 1e-06 and 0.5"),
        (("--elo-1", "-5"), "setting policy.gate.elo_1 = -5.0 is not valid: must be above elo_0 = 0"),
        (("--true", "0,x"), "--true '0,x' is not valid: must be numbers with commas between them"),
        (("--true", "5000"), "--true 5000.0 is not valid: must lie between -1000 and 1000"),
        (("--true", ",".join(["0"] * 17)), "count of --true 17 is not valid"),
        (("--players", "5"), "--players 5 is not valid: must lie between 2 and 4"),
        (("--trials", "0"), "--trials 0 is not valid: must lie between 1 and 1e+06"),
        (("--in-flight", "0"), "--in-flight 0 is not valid"),
        (("--slow", "0.01"), "--slow 0.01 is not valid"),
        (("--kind", "best"), "unknown kind of gate 'best'; known: anti-disaster, improvement, non-regression"),
    ],
)
def test_wrong_input_is_named(home: Home, arguments: tuple[str, ...], text: str) -> None:
    """Exit 2 and one line that names the invalid value."""
    code, output = home.run("gate", "simulate", *arguments)

    assert code == 2, output
    assert f"ringrift: {text}" in output
    assert "Traceback" not in output


class Stepping:
    """A clock of which 64 readings take as long as the interval between two lines of progress."""

    def __init__(self) -> None:
        self.looks = 0

    def now(self) -> float:
        """Never read."""
        return 0.0

    def tick(self) -> float:
        """Later by a part of the time between two lines."""
        self.looks += 1
        return self.looks * _PROGRESS_SECONDS / 64


def test_long_runs_report_their_progress(capsys: pytest.CaptureFixture[str]) -> None:
    """Progress is printed to stderr now and then; stdout has only the result."""
    running: Iterator[_Trial] = repeat(_Trial(promoted=True, blocks=1, surplus=0))

    finished = list(_with_progress("+35 Elo", running, 128, "trials", Stepping()))

    assert len(finished) == 128
    printed = capsys.readouterr()
    assert printed.err.splitlines() == ["+35 Elo: 64 of 128 trials", "+35 Elo: 128 of 128 trials"]
    assert printed.out == ""
