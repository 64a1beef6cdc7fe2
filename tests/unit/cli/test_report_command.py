"""``ringrift report`` writes the page of the last run at any time, and says what is missing."""

import asyncio
import json
from pathlib import Path

import pytest

from ringrift.cli.command import Output
from ringrift.cli.main import main
from ringrift.cli.runs import begin_run, end_run
from ringrift.environment import read_settings
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import InputError, SettingsError
from ringrift.kernel.exit_codes import ExitCode
from ringrift.store.open import open_store
from unit.cli.command_output import ask
from unit.cli.example_report import findings
from unit.work.world import World, play

SETTINGS = {"work.workload": "fake", "policy.seed": 77, "work.params.fake_every": 3}


async def begin(world: World, ended: float | None = 1090.0, **overrides: object) -> None:
    """Record a run of the fake; if it *ended*, with a proof that missed."""
    effective = read_settings({"RINGRIFT_HOME": "/nowhere"}, overrides={**SETTINGS, **overrides})
    run = await begin_run(world.store, effective, began=1000.0, pid=7, minutes=2.0)
    if ended is not None:
        await end_run(world.store, run, ended=ended, seconds=88.0, proof=findings("square8_2p"))


def test_the_last_run_is_reported_with_its_proof(tmp_path: Path) -> None:
    """Page and data have the times, the settings and the proof of the run, whatever the settings are now."""

    async def body(world: World) -> Output:
        await begin(world, **{"policy.seed": 5})
        await begin(world)
        return await ask(world.store, "report", str(tmp_path / "mine.html"), clock=world.clock)

    output = play(tmp_path / "store", body)

    data = json.loads((tmp_path / "mine.json").read_text("utf-8"))
    about = {key: data["about"][key] for key in ("begun", "ended", "seed", "workload", "params")}
    assert about == {"begun": 1000.0, "ended": 1090.0, "seed": 77, "workload": "fake", "params": {"fake_every": 3}}
    assert len(data["proof"]) == len(findings("square8_2p"))
    assert "NOT PROVEN: 2 of 2 claims missed" in (tmp_path / "mine.html").read_text("utf-8")
    assert output.value["run"] == "r2"
    assert "proof" not in output.text


def test_a_run_without_a_proof_says_so(tmp_path: Path) -> None:
    """One that goes on or was killed has a page until now; a folder gets report.html."""

    async def body(world: World) -> Output:
        await begin(world, ended=None)
        return await ask(world.store, "report", str(tmp_path), clock=world.clock)

    output = play(tmp_path / "store", body)

    assert "No proof is recorded" in (tmp_path / "report.html").read_text("utf-8")
    assert "no proof is recorded for it" in output.text
    assert "it goes on, or was killed" in output.text


def test_a_store_without_a_run_has_no_report(tmp_path: Path) -> None:
    """The message says what to do, and nothing is written."""
    with pytest.raises(InputError, match="no run is recorded in this store"):
        play(tmp_path / "store", lambda world: ask(world.store, "report", str(tmp_path / "mine")))

    assert not list(tmp_path.glob("mine*"))


def test_a_file_that_cannot_be_written_is_a_typed_error(tmp_path: Path) -> None:
    """With the reason."""

    async def body(world: World) -> None:
        await begin(world)
        with pytest.raises(SettingsError, match="cannot be written: No such file or directory"):
            await ask(world.store, "report", str(tmp_path / "none" / "mine.html"))

    play(tmp_path / "store", body)


def test_the_command_exits_with_2_in_an_empty_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message is for people, without a traceback."""
    monkeypatch.setenv("RINGRIFT_HOME", str(tmp_path))

    async def create() -> None:
        async with open_store(read_settings().settings.store, SystemClock()):
            pass

    (tmp_path / "coordination").mkdir()
    asyncio.run(create())
    with pytest.raises(SystemExit) as end:
        main(["report"])

    assert end.value.code == ExitCode.WRONG_INPUT
    assert 'start one with "ringrift run"' in capsys.readouterr().err
