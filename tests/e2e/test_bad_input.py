"""Wrong input on the command line: a line that names the thing, the value and the limit; and nothing changes."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.processes import PATIENCE_SECONDS, Home
from wait import until

NO_ROOM = "no room left at"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("run", "--variants", "go19_2p"), "unknown variant 'go19_2p'; known: "),
        (("run", "--variants", "hex8"), "variant 'hex8' is not valid"),
        (("why", "Chess-2p"), "variant 'Chess-2p' is not valid: write it as board_Np"),
        (("run", "--set", "work.workload=chess"), "unknown workload 'chess'; known: fake"),
        (("run", "--set", "work.slot=3"), "unknown setting 'work.slot'; did you mean work.slots"),
        (("run", "--set", "work.slots=0"), "setting work.slots = 0 is not valid: must lie between 1 and 1024"),
        (("run", "--set", "work.slots=many"), "setting work.slots = 'many' is not valid: must be a whole number"),
        (("run", "--set", "work.slots"), "--set 'work.slots' is not valid: must be KEY=VALUE"),
        (("run", "--nodes", "0"), "--nodes 0 is not valid: must lie between 1 and 64"),
        (("run", "--iterations", "-1"), "--iterations -1 is not valid: must be 0 or more"),
        (("run", "--report", "/nowhere/x.json"), "--report '/nowhere/x.json' is not valid: its folder does not exist"),
        (("run", "--settings", "/nowhere.toml"), "settings file '/nowhere.toml' is not valid: No such file"),
        (("statsu",), "error: unknown command 'statsu'; did you mean status"),
        (("run", "--variants", ""), "--variants"),
        (("run", "--set", "node.id=a b"), "setting node.id = 'a b' is not valid: use 1 to 64 letters"),
    ],
)
def test_wrong_input_is_named_and_changes_nothing(tmp_path: Path, arguments: tuple[str, ...], text: str) -> None:
    """Exit 2, one line without a traceback, and no store has been made."""
    home = Home(tmp_path / "home", settings="")

    code, output = home.run(*arguments)

    assert code == 2, output
    assert f"ringrift: {text}" in output, output
    assert "Traceback" not in output
    assert not home.database.exists()


def test_variables_have_their_effects(tmp_path: Path) -> None:
    """Doctor shows what each variable sets, where every value comes from, and names a misspelt one."""
    home = Home(tmp_path / "home", settings="")
    variables = {
        "RINGRIFT_IS_COORDINATOR": "true",
        "RINGRIFT_COORDINATOR_DB": str(tmp_path / "other.db"),
        "RINGRIFT_JOB_GRACE_PERIOD": "7",
        "RINGRIFT_DLQ_PATH": "x.db",
        "RINGRIFT_SLOTS": "3",
    }
    os.environ.update(variables)
    try:
        code, output = home.run("doctor")
    finally:
        for name in variables:
            del os.environ[name]

    rows = {line.split()[0]: line.split()[1:] for line in output.splitlines() if line.strip()}
    assert code == 1
    assert rows["node.profile"] == ['"coordinator"', "environment"]
    assert rows["node.id"] == ['"a"', "environment"]
    assert rows["store.path"] == [f'"{tmp_path / "other.db"}"', "environment"]
    assert rows["work.grace_seconds"] == ["7.0", "environment"]
    assert rows["work.slots"][1] in ("default", "preset")
    assert "RINGRIFT_SLOTS is unknown and has no effect" in output
    assert "RINGRIFT_DLQ_PATH" in output


@pytest.mark.parametrize("arguments", [("run", "--variants", b"\xff"), ("why", b"\xff"), (b"\xfe\xff",)])
def test_bytes_that_are_no_text_are_refused(tmp_path: Path, arguments: tuple[str | bytes, ...]) -> None:
    """As a process gets them from its shell: exit code 2 and one line."""
    command = [sys.executable, "-m", "ringrift.cli.main", *arguments]
    env = {**os.environ, "RINGRIFT_HOME": str(tmp_path / "home")}

    ended = subprocess.run(command, env=env, capture_output=True, text=True)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("ringrift: command line")
    assert "its bytes are not UTF-8" in ended.stderr
    assert not (tmp_path / "home").exists()


def test_a_home_that_cannot_be_written_is_refused_before_the_run() -> None:
    """With the name of the variable and the reason, and before anything is measured."""
    env = {**os.environ, "RINGRIFT_HOME": "/proc/nowhere"}
    command = [sys.executable, "-m", "ringrift.cli.main", "run", "--variants", "square6_2p"]

    ended = subprocess.run(command, env=env, capture_output=True, text=True)

    assert ended.returncode == 2
    assert "RINGRIFT_HOME = '/proc/nowhere' is not valid: cannot write there" in ended.stderr
    assert "measuring" not in ended.stderr


def test_a_wrong_flag_names_the_variable(tmp_path: Path) -> None:
    """A variable that must be true or false and is neither is refused by its name."""
    home = Home(tmp_path / "home", settings="")
    os.environ["RINGRIFT_IS_COORDINATOR"] = "maybe"
    try:
        code, output = home.run("run")
    finally:
        del os.environ["RINGRIFT_IS_COORDINATOR"]

    assert code == 2
    assert "setting RINGRIFT_IS_COORDINATOR = 'maybe' is not valid: must be true or false" in output


def test_a_run_without_a_coordinator_is_refused(tmp_path: Path) -> None:
    """RINGRIFT_IS_COORDINATOR=false chooses a profile without roles; a run needs one with roles, and names it."""
    home = Home(tmp_path / "home", settings="")
    os.environ["RINGRIFT_IS_COORDINATOR"] = "false"
    try:
        code, output = home.run("run", "--variants", "hex8_2p")
    finally:
        del os.environ["RINGRIFT_IS_COORDINATOR"]

    assert code == 2
    assert "one node must be coordinator or full" in output


def test_debug_logs_in_detail(tmp_path: Path) -> None:
    """RINGRIFT_DEBUG=true logs in detail to stderr."""
    home = Home(tmp_path / "home")
    os.environ["RINGRIFT_DEBUG"] = "true"
    try:
        _, loud = home.run("run", "--iterations", "1", "--variants", "hex8_2p")
    finally:
        del os.environ["RINGRIFT_DEBUG"]

    assert " DEBUG " in loud
    assert (home.path / "logs" / "ringrift.log").stat().st_size > 0


@pytest.mark.parametrize("arguments", ["doctor", "--help", "events tail"])
def test_a_reader_that_ends_early_is_no_error(played: Home, arguments: str) -> None:
    """As in ``ringrift events tail | head -1``: exit code 0, and not a word on stderr."""
    command = [sys.executable, "-m", "ringrift.cli.main", *arguments.split()]
    env = {**os.environ, "RINGRIFT_HOME": str(played.path)}
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.close()

    assert process.stderr is not None
    errors = process.stderr.read()
    process.stderr.close()

    assert (process.wait(), errors) == (0, "")


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of one mebibyte."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        if os.environ.get("CI"):
            pytest.fail("this machine cannot mount a small disk")
        pytest.skip("needs the right to mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def collect_output(process: "subprocess.Popen[str]", lines: list[str]) -> None:
    """Collect the output of *process* until it ends."""
    assert process.stdout is not None
    while line := process.stdout.readline():
        lines.append(line)


def text_of(path: Path) -> str:
    """The content of a file, if it exists."""
    return path.read_text() if path.exists() else ""


def test_a_full_disk_is_reported_and_nothing_acknowledged_is_lost(small: Path) -> None:
    """On a disk that fills up the run names that as its error; with room again it continues where it stopped."""
    home = Home(small / "home")
    process = home.start("run", "--iterations", "0", "--variants", "hex8_2p", "--plain")
    lines, log = list[str](), home.path / "logs" / "ringrift.log"
    reader = threading.Thread(target=collect_output, args=(process, lines))
    reader.start()
    try:
        until(lambda: not reader.is_alive() or NO_ROOM in "".join(lines) + text_of(log), PATIENCE_SECONDS)
    finally:
        process.kill()
        reader.join()
        process.communicate()
    before = home.lines()["hex8_2p"].counts

    subprocess.run(["mount", "-o", "remount,size=64m", str(small)], check=True)
    code, again = home.run("run", "--iterations", "1", "--variants", "hex8_2p")

    assert NO_ROOM in "".join(lines) + text_of(log)
    assert code == 0, again[-2000:]
    assert home.lines()["hex8_2p"].counts.batches >= before.batches
    assert home.unbalanced() == []
