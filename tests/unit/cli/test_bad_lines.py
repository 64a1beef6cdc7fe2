"""Bad command lines: exit code 2, one line that says what is wrong, no traceback, and nothing is changed."""

from pathlib import Path

import pytest

from ringrift.cli.main import main

HUGE, LONG, BYTES = "1" + "0" * 400, "1" + "0" * 5000, "\udcff\udcfe"  # as Python reads bytes that are no UTF-8
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
    f"{BYTES}",
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
