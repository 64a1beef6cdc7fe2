"""A blob folder that goes away and comes back costs time and nothing else; what is given up is given up by a person."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from e2e.processes import QUICK, Home, kill, reached

RUN = ("run", "--iterations", "0", "--variants", "hex8_2p", "--nodes", "1")
GIVEN_BACK = 6  # claims of one job while the disk is away: more than the tries that it has
SETTINGS = f"{QUICK}[work.breakers]\nreset_seconds = 0.3\n"  # between two claims of a node whose disk is away
MISSING = "SELECT 1 FROM log WHERE name = 'model.missing'"


def generation(home: Home) -> int:
    """The generation of the champion; -1 before there is one."""
    line = home.lines().get("hex8_2p") if home.has("SELECT 1 FROM records WHERE kind = 'line'") else None
    return -1 if line is None else line.generation


def claims(home: Home) -> int:
    """How often the open job that was claimed most often was claimed."""
    [(fence,)] = home.ask("SELECT coalesce(max(fence), 0) FROM jobs WHERE state IN ('ready', 'claimed', 'paused')")
    return int(fence)


def lost(home: Home) -> list[str]:
    """What was given up so far."""
    return [body for (body,) in home.ask("SELECT body FROM log WHERE name IN ('data.lost', 'model.rolled_back')")]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A home of its own; none of its processes is left running afterwards."""
    home = Home(tmp_path / "home", SETTINGS)
    yield home
    home.clear()


def test_a_disk_that_goes_and_comes_back_changes_no_champion(home: Home) -> None:
    """However long it is away, champion, generation and counts stay, people see why, and then the loop goes on."""
    process, folder, aside = home.start(*RUN), home.path / "blobs" / "a", home.path / "aside"
    reached(process, lambda: generation(home) >= 1)
    folder.rename(aside)
    folder.mkdir()  # as an empty mount point looks
    before = home.lines()["hex8_2p"]

    reached(process, lambda: home.has(MISSING) and claims(home) >= GIVEN_BACK)
    line = home.lines()["hex8_2p"]
    assert (line.champion, line.generation) == (before.champion, before.generation)
    assert lost(home) == []
    _, why = home.run("why", "hex8_2p")
    assert f"no holder of champion {before.champion:.12} answers: a away" in why
    _, status = home.run("status")
    assert "node a: blob folder" in status

    folder.rmdir()
    aside.rename(folder)
    reached(process, lambda: generation(home) > before.generation)
    assert lost(home) == []
    reached(process, lambda: home.has("SELECT 1 FROM log WHERE name = 'model.returned'"))
    cleared = "SELECT 1 FROM log WHERE name = 'alert.cleared' AND CAST(body AS TEXT) LIKE '%model_missing%'"
    reached(process, lambda: home.has(cleared))


def test_a_known_node_starts_only_with_its_own_folder(played: Home) -> None:
    """Without the marker nothing starts and nothing is forgotten; adopting says what is there and lets it start."""
    holdings = "SELECT count(*) FROM records WHERE kind = 'holding' AND id LIKE '%@a'"
    folder, files = played.path / "blobs" / "a", played.ask(holdings)
    folder.rename(played.path / "aside")
    folder.mkdir()
    code, output = played.run("run", "--iterations", "1", "--variants", "hex8_2p", "--nodes", "1")
    assert (code, "ringrift data adopt a" in output) == (1, True), output
    assert (played.ask(holdings), list(folder.iterdir())) == (files, [])

    _, report = played.run("data", "adopt")
    assert "has no marker" in report
    assert f"0 of the {files[0][0]} files that the store knows there are in it" in report
    shutil.copytree(played.path / "aside", folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node"))
    code, report = played.run("data", "adopt", "a")
    assert (code, "adopted" in report, f"{files[0][0]} of the {files[0][0]} files" in report) == (0, True, True), report

    before = generation(played)
    process = played.start(*RUN)
    reached(process, lambda: generation(played) > before)
    assert lost(played) == []


@pytest.mark.parametrize("address", ["data/blobs/a", "as it was set"])
def test_a_home_of_an_earlier_version_needs_no_command(played: Home, address: str) -> None:
    """Its folder is marked at the first start, unless none of its files is in it: then that disk is not there."""
    folder, aside = played.path / "blobs" / "a", played.path / "aside"
    record = {"id": "a", "profile": "full", "address": address if "/" in address else str(folder), "beat": 7}
    db = apsw.Connection(str(played.database))
    db.execute("UPDATE records SET body = ? WHERE kind = 'node' AND id = 'a'", (json.dumps(record).encode(),))
    db.close()
    (folder / "node").unlink()
    folder.rename(aside)
    folder.mkdir()
    code, output = played.run("run", "--iterations", "1", "--variants", "hex8_2p", "--nodes", "1")
    assert (code, "ringrift data adopt a" in output, list(folder.iterdir())) == (1, True, []), output

    folder.rmdir()
    aside.rename(folder)
    before = generation(played)
    process = played.start(*RUN)
    reached(process, lambda: generation(played) > before)
    assert ((folder / "node").read_text(), lost(played)) == ("a\n", [])


def test_bad_adoptions_are_refused(played: Home, tmp_path: Path) -> None:
    """An unknown node, a folder that is absent or another's, and files that are not lost: nothing changes."""
    for words, reason in (
        (("adopt", "b"), "unknown node 'b'"),
        (("adopt", "a", "--folder", str(tmp_path / "none")), "is not there: mount its disk"),
        (("adopt", "--folder", str(tmp_path)), "name the node"),
        (("give-up",), "name the node"),
        (("give-up", "a"), "its files are not lost"),
    ):
        code, output = played.run("data", *words)
        assert (code, reason in output) == (2, True), output
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "node").write_text("n2\n")
    code, output = played.run("data", "adopt", "a", "--folder", str(tmp_path / "other"))
    assert (code, "belongs to node n2" in output) == (2, True), output


def test_files_of_a_disk_that_is_destroyed_are_given_up_by_hand(home: Home) -> None:
    """The line waits until a person says so; then it begins again, and the champion is reported as lost."""
    process, folder = home.start(*RUN), home.path / "blobs" / "a"
    reached(process, lambda: generation(home) >= 0)
    folder.rename(home.path / "aside")
    reached(process, lambda: home.has(MISSING) and claims(home) >= GIVEN_BACK)
    assert lost(home) == []
    code, output = home.run("data", "give-up", "a")
    assert (code, "are given up" in output) == (0, True), output
    kill(process)
    folder.mkdir()
    assert home.run("data", "adopt", "a")[0] == 0

    process = home.start(*RUN)
    reached(process, lambda: bool(lost(home)))
    lines = home.lines()
    reached(process, lambda: home.lines()["hex8_2p"].tries > lines["hex8_2p"].tries)


GUEST = """
import asyncio, sys
from random import Random
from ringrift.environment import read_settings
from ringrift.kernel.clock import SystemClock
from ringrift.node import Node

async def main() -> None:
    settings = read_settings(file=sys.argv[1]).settings
    async with Node.open(settings, SystemClock(), Random(7)):
        await asyncio.get_running_loop().create_future()

asyncio.run(main())
"""


def test_nodes_that_were_started_in_different_directories_reach_each_other(tmp_path: Path) -> None:
    """With the default home, a relative path, a guest elsewhere fetches the champion and no copy counts as lost."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    home = Home(first / "data")
    environ = {**os.environ, "RINGRIFT_HOME": "data", "RINGRIFT_NODE_ID": "a"}
    program = "import sys; from ringrift.cli.main import main; main(sys.argv[1:])"
    host = subprocess.Popen(
        [sys.executable, "-c", program, *RUN], cwd=first, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, start_new_session=True,
    )  # fmt: skip
    home.started.append(host)
    try:
        reached(host, lambda: generation(home) >= 0)
        settings = second / "guest.toml"
        settings.write_text(f'{QUICK}[store]\npath = "{home.database}"\n[node]\nprofile = "selfplay"\n')
        environ |= {"RINGRIFT_NODE_ID": "guest"}
        guest = subprocess.Popen(
            [sys.executable, "-c", GUEST, str(settings)], cwd=second, env=environ, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        home.started.append(guest)
        played = "SELECT 1 FROM log WHERE name = 'selfplay.batch_finished' AND CAST(body AS TEXT) LIKE '%guest%'"
        reached(guest, lambda: home.has(played))
        before = generation(home)
        reached(guest, lambda: generation(home) > before)
    finally:
        home.clear()

    assert lost(home) == []
    rows = home.ask("SELECT body FROM records WHERE kind = 'node'")
    assert all(f'"address":"{tmp_path}'.encode() in bytes(body) for (body,) in rows), rows
    assert len(rows) == 2
