"""Bad command lines: exit code 2, one line that says what is wrong, no traceback, and nothing is changed."""

import asyncio
from pathlib import Path

import apsw
import pytest

from contract.bad_lines import BYTES, HUGE, LONG, generate
from ringrift.cli.main import main
from ringrift.environment import read_settings
from ringrift.kernel.clock import SystemClock
from ringrift.store.open import open_store

GENERATED = list(generate())
FILES = {
    "latin.toml": b'[work]\nworkload = "\xff"\n',
    "huge.toml": f"[work]\nslots = {LONG}\n".encode(),
    "infinite.toml": b"[policy]\nseed = 1e400\n",
    "zeros.toml": bytes(10),
    "deep.toml": f"a{'.a' * 3000} = 1\n".encode(),
    "nested.toml": f"a = {'[' * 5000}{']' * 5000}\n".encode(),
    "list.toml": b"work = [1]\n",
    "null.toml": b'[store]\npath = "a\\u0000b"\n',
}
QUICK = "run --iterations 1 --variants hex8_2p --set work.workload=fake"  # a run that would end soon if it began
LINES = [
    f"{QUICK} --report {{folder}}",
    f"{QUICK} --report {{folder}}/missing/x.json",
    f"{QUICK} --report /proc/x.json",
    f"{QUICK} --report {{folder}}/page.json",  # the page beside it is a folder
    f"{QUICK} --report {BYTES}/a.json",
    "run --minutes 1e400",
    "run --minutes nan",
    f"run --minutes {LONG}",
    "run --minutes -1",
    f"run --iterations {LONG}",
    f"run --nodes {HUGE}",
    f"run --seed {HUGE}",
    f"run --variants {BYTES}",
    "run --variants ,",
    *(f"run --settings {{folder}}/{name}" for name in FILES),
    "run --settings {folder}",
    f"run --settings {BYTES}",
    "run --set work.slots=1e400",
    f"run --set work.slots={LONG}",
    "run --set cluster.beat_seconds=nan",
    f"run --set cluster.beat_seconds={LONG}",
    f"run --set {BYTES}={BYTES}",
    "run --set a.b.c.d.e=1",
    "run --set work=1",
    f"run --set store.path={BYTES}",
    "run --set store.path=",
    "run --set blobs.folder=",
    f"status --set work.slots={LONG}",
    f"why {BYTES}",
    f"why {'x' * 100_000}",
    f"models list --variant {BYTES}",
    f"match a b --blocks {HUGE}",
    "elo --target 1e400",
    "elo --target nan",
    "elo --target -1",
    "events replay --after -1",
    "logs --node nosuch",
    "gate show --elo-0 nan",
    f"gate simulate --trials {HUGE}",
    "gate budget --share nan",
    f"gate simulate --seed {HUGE}",
    f"play hex8_2p --sims {HUGE}",
    f"events tail --count {HUGE}",
    f"events replay --after -{HUGE}",
    f"events show {BYTES}",
    f"events trace {BYTES}",
    f"dlq show {BYTES} {HUGE}",
    f"readers forget {BYTES}",
    f"quarantine add a --reason {BYTES}",
    f"lineage {BYTES}",
    f"pause --variant {BYTES}",
    "pause --for 1e400",
    f"doctor {BYTES}",
    "run --variants ",
    "run --variants=",
    "run --variants hex8_2p,,hex8_3p",
    "run --variants Hex8-2p",
    "run --set work.workload=chess",
    "run --set work.params.x=nan --set work.workload=fake",
    f"run --set work.params.x={HUGE} --set work.workload=fake",
    "config shw",
    "config show a_2p b_2p",
    "config explain",
    "config explain work.slot",
    "config diff",
    "doctor extra",
    f"{BYTES}",
]
NEED_A_STORE = [
    "readers forget nosuch",
    "why chess_2p",
    "elo --variant chess_2p",
    "models show nosuch",
    "models list --variant chess_2p",
    "events show nosuch",
    "lineage nosuch",
    "jobs show nosuch",
    "jobs cancel nosuch",
    "jobs retry nosuch",
    "config diff r9",
    "data adopt nosuch",
    "quarantine release nosuch",
    "promotions --variant chess_2p",
    "dlq show nosuch",
    "dlq retry nosuch",
    "alerts clear nosuch",
    "request chess_2p train",
    "match nosuch other",
    "blast --node nosuch",
    "pause --variant chess_2p",
    "why Hex8-2p",
    "elo --variant hex8",
    "jobs list --variant hex8_0p",
    "pause --for soon",
    "models verify nosuch",
    "models export nosuch x",
    "data gc nosuch",
    "data du nosuch",
    "pause --node nosuch",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of bad settings, with a folder in the place of a page."""
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "page.html").mkdir()
    return tmp_path


@pytest.mark.parametrize("line", LINES, ids=lambda line: ascii(line)[1:60])
def test_a_bad_line_is_refused(
    line: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a line on stderr, before anything was made."""
    monkeypatch.setenv("RINGRIFT_HOME", str(folder / "home"))
    before = sorted(folder.iterdir())

    with pytest.raises(SystemExit) as end:
        main(line.format(folder=folder).split(" "))

    errors = capsys.readouterr().err
    assert end.value.code == 2, errors
    assert errors.splitlines()[-1].startswith("ringrift")
    assert sorted(folder.iterdir()) == before


def content(database: Path) -> list[tuple[object, ...]]:
    """Every row of every table."""
    connection = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return [(name, *row) for name in sorted(names) for row in connection.execute(f'SELECT * FROM "{name}"')]
    finally:
        connection.close()


def make_store(home: Path) -> Path:
    """An empty store in *home*."""

    async def create() -> Path:
        settings = read_settings({"RINGRIFT_HOME": str(home)}).settings.store
        Path(settings.path).parent.mkdir(parents=True)
        async with open_store(settings, SystemClock()):
            return Path(settings.path)

    return asyncio.run(create())


def test_two_hundred_wrong_lines_end_without_a_traceback(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command with every kind of bad value: exit code 2, a last line that begins with our name, nothing made."""
    monkeypatch.setenv("RINGRIFT_HOME", str(folder / "home"))
    before, failures = sorted(folder.iterdir()), []
    for words in GENERATED:
        try:
            main(words)
        except SystemExit as end:
            errors = capsys.readouterr().err
            if end.code != 2 or not errors.splitlines()[-1].startswith("ringrift"):
                failures.append((words, end.code, errors[-200:]))
        except BaseException as error:  # noqa: BLE001 - every escape is a traceback for a person
            failures.append((words, error, ""))

    assert len(GENERATED) >= 200
    assert failures == []
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("line", NEED_A_STORE)
def test_a_name_that_does_not_exist_changes_nothing(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Refused with exit code 2 by a line that names it, and the store holds what it held."""
    monkeypatch.setenv("RINGRIFT_HOME", str(tmp_path / "home"))
    database = make_store(tmp_path / "home")
    before = content(database)

    with pytest.raises(SystemExit) as end:
        main(line.split(" "))

    errors = capsys.readouterr().err
    assert end.value.code == 2, errors
    assert errors.splitlines()[-1].startswith("ringrift")
    assert content(database) == before


@pytest.mark.parametrize(
    "line", ["why Hex8-2p", "elo --variant hex8", "jobs list --variant hex8_0p", "run --variants x"]
)
def test_a_variant_of_another_form_is_refused_with_the_form(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether there is a store or not, and whichever command it is."""
    monkeypatch.setenv("RINGRIFT_HOME", str(tmp_path / "home"))

    with pytest.raises(SystemExit) as end:
        main(line.split(" "))

    assert end.value.code == 2
    assert "is not valid: write it as board_Np" in capsys.readouterr().err


@pytest.mark.parametrize("variable", ["RINGRIFT_HOME", "RINGRIFT_NODE_ID", "RINGRIFT_COORDINATOR_DB"])
def test_a_variable_that_is_no_utf8_is_refused(
    variable: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its name."""
    monkeypatch.setenv("RINGRIFT_HOME", str(folder / "home"))
    monkeypatch.setenv(variable, BYTES)

    with pytest.raises(SystemExit) as end:
        main(["status"])

    assert end.value.code == 2
    assert f"{variable} = " in capsys.readouterr().err


@pytest.mark.parametrize("command", ["status", "doctor", "run --iterations 1 --variants hex8_2p", "health"])
def test_a_home_that_is_a_file_is_refused(
    command: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No command ends with a traceback."""
    monkeypatch.setenv("RINGRIFT_HOME", str(folder / "list.toml"))

    with pytest.raises(SystemExit) as end:
        main([*command.split(" "), "--set", "work.workload=fake"])

    assert end.value.code in (1, 2)
    assert str(folder) in "".join(capsys.readouterr())
