"""The example plug-in, a program in C: it builds, conforms, stops on a signal, and the loop trains it."""

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from e2e.processes import SHARP, Home
from ringrift.workload.conformance import check, main
from ringrift.workload.executable import Executable

SOURCE = Path(__file__).parents[2] / "examples" / "coin" / "coin.c"
GAMES_MANY = 50_000  # their progress is more than a pipe buffers, so the program cannot end before it is read
STOPPED = 75


@pytest.fixture(scope="module")
def coin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, built by the commands of its README, with every warning an error."""
    compiler = shutil.which("cc")
    if compiler is None:
        assert os.environ.get("CI") != "true", "there is no C compiler, and in CI there must be one"
        pytest.skip("there is no C compiler here")
    program = tmp_path_factory.mktemp("coin") / "coin"
    words = [compiler, "-std=c99", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-o", str(program), str(SOURCE)]
    subprocess.run(words, check=True, timeout=60)
    return program


@pytest.mark.parametrize("variant", ["coin_2p", "coin_3p"])
def test_the_example_conforms(coin: Path, variant: str, tmp_path: Path) -> None:
    """The suite for plug-ins reports no fault, with any seed."""
    workload = Executable("coin", [str(coin)])

    assert [check(workload, variant, tmp_path / str(seed), seed) for seed in (0, 2**63, -1)] == [[], [], []]


@pytest.mark.parametrize("words", [["fake", "hex8_2p"], ["coin", "coin_2p"]])
def test_the_documented_command_confirms_it(words: list[str], coin: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The documented command to check a workload ends with 0 and one line."""
    command = ["--command", str(coin)] if words[0] == "coin" else []

    code = main([*words, *command])

    assert (code, capsys.readouterr().out) == (0, f"{' '.join(words)}: conforms\n")


def run_job(coin: Path, folder: Path, **job: object) -> "subprocess.Popen[str]":
    """The program on a job, with *folder* as its inputs and outputs."""
    spec = {"job": "j", "variant": "coin_2p", "seed": 7, "inputs": {}, "params": {}, "attempt": 1, **job}
    (folder / "job.json").write_text(json.dumps(spec))
    words = [str(coin), "run", "--job", str(folder / "job.json"), "--in", str(folder), "--out", str(folder)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_the_example_stops_between_games(coin: Path, tmp_path: Path) -> None:
    """Stopped in the middle of a batch, it ends with 75 and its finished games, whole."""
    run_job(coin, tmp_path, stage="train").communicate(timeout=30)
    playing = run_job(coin, tmp_path, stage="play", inputs={"model": ["model"]}, params={"games": GAMES_MANY})
    assert playing.stdout is not None
    playing.stdout.readline()

    playing.send_signal(signal.SIGTERM)
    playing.communicate(timeout=30)

    [batch] = json.loads((tmp_path / "result.json").read_text())["outputs"]
    lines = (tmp_path / "games").read_text().splitlines()
    assert playing.returncode == STOPPED
    assert 0 < batch["meta"]["games"] == len(lines) - 2 < GAMES_MANY


def test_the_loop_learns_the_example(coin: Path, home: Home) -> None:
    """Registered as its README describes, it is promoted on evidence, and its champion calls heads more often."""
    settings = SHARP.replace('"fake"', '"coin"') + f"[workloads.coin]\ncommand = ['{coin}']\n"
    (home.path / "ringrift.toml").write_text(settings)

    code, output = home.run("run", "--iterations", "1", "--variants", "coin_2p", seconds=110)
    _, alerts = home.run("alerts")

    champion = home.lines()["coin_2p"].champion
    assert code == 0, output[-3000:]
    assert champion is not None
    [*_, generation, heads] = next(home.path.glob(f"blobs/*/*/{champion}")).read_text().splitlines()[0].split()
    assert int(generation) >= 1
    assert int(heads) > 600
    assert alerts.strip() == "no alerts"  # nobody asks it for a player that it does not declare
    assert home.orphans() == []
