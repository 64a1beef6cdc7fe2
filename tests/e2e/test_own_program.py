"""The page on own programs is true: its examples run, beside a node and without one, and so do events of a package."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.processes import PATIENCE_SECONDS, Home, reached

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "howto" / "own-program.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
PROGRAMS = [block for block in BLOCKS if "asyncio.run(" in block]
[EVENTS] = [block for block in BLOCKS if "asyncio.run(" not in block]
[ENTRY_POINTS] = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
LINES_MAX = 16
EXPECTED = ["custom.published", "hex8_2p", "hex8_2p 0", "send hex8_2p once for program.mailer@", ""]


def run(program: str, folder: Path, **environ: str) -> str:
    """Run *program* in *folder* and return its output; it must end well."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith("RINGRIFT_")}
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=environment | environ,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_every_example_runs_without_a_node(once: Home, tmp_path: Path) -> None:
    """Each is short, prints what the page says, and leaves no job in the queue and no node in the roster."""
    home = once.copied(tmp_path / "data")
    outputs = [run(program, tmp_path) for program in PROGRAMS]

    assert len(PROGRAMS) == len(EXPECTED)
    for program, output, text in zip(PROGRAMS, outputs, EXPECTED, strict=True):
        assert len([line for line in program.splitlines() if line.strip()]) <= LINES_MAX
        assert text in output
    assert outputs[4].split()[0] == "ready"
    assert home.ask("SELECT state FROM jobs ORDER BY number DESC LIMIT 1") == [("cancelled",)]
    assert {record["gone"] for record in home.records("node")} == {True}
    assert home.ask("SELECT count(*) FROM roles WHERE holder != ''") == [(0,)]


def test_a_job_that_a_program_asks_for_is_done_by_a_node_beside_it(once: Home, tmp_path: Path) -> None:
    """The program waits, the node works: the client itself claims nothing and disturbs nobody."""
    home = once.copied(tmp_path / "data")
    node = home.start("node")
    try:
        reached(node, lambda: home.has("SELECT 1 FROM roles WHERE role = 'pipeline' AND holder = 'a'"))
        output = run(PROGRAMS[4], tmp_path)
        assert output.split()[-1] == "done"
        query = "SELECT DISTINCT json_extract(body, '$.node') FROM log WHERE name = ?"
        holders = home.ask(f"{query} AND json_extract(body, '$.champion') = 'random'", "evaluation.blocks_played")
        assert holders == [("a",)]
        node.send_signal(signal.SIGTERM)
        node.communicate(timeout=PATIENCE_SECONDS)
        assert node.returncode == 0
    finally:
        home.clear()


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder with the package of the page, a broken one, and two that declare the same name."""
    folder = tmp_path / "packages"
    modules = {"my_lab/events.py": EVENTS, "broken_lab.py": "import no_such_module"}
    same = 'from ringrift import Event\n\nclass Same(Event, tag="twice.same"):\n    """Declared twice."""\n'
    modules |= {"first_lab.py": same, "second_lab.py": same}
    modules["thief.py"] = same.replace("twice.same", "model.promoted")
    for name, content in modules.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    entries = re.sub(r'\[project\.entry-points\."(.*)"\]', r"[\1]", ENTRY_POINTS).replace('"', "")
    entries += "\n".join(f"{name} = {name}" for name in ("broken_lab", "first_lab", "second_lab", "thief")) + "\n"
    info = folder / "labs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: labs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entries)
    return folder


def test_events_of_another_package_are_shown_by_every_command(once: Home, tmp_path: Path, packages: Path) -> None:
    """They are published and selected by class, and printed by name and fields; a bad module only disables itself."""
    home = once.copied(tmp_path / "data")
    program = """
import asyncio, ringrift
from my_lab.events import ProbeRead

async def main():
    async with ringrift.connect("data") as client:
        events = client.subscribe(ProbeRead)
        await client.publish(ProbeRead(probe="p1", celsius=21.5))
        async for event, envelope in events:
            print(type(event).__name__, event.celsius, envelope.id)
            break

asyncio.run(main())
"""
    environ = {"PYTHONPATH": str(packages)}
    name, celsius, id = run(program, tmp_path, **environ).split()
    assert (name, celsius) == ("ProbeRead", "21.5")

    def ringrift(*arguments: str) -> tuple[int, str]:
        command = [sys.executable, "-c", "from ringrift.cli.main import main; main()", *arguments]
        ended = subprocess.run(
            command,
            env=os.environ | environ | {"RINGRIFT_HOME": str(home.path)},
            capture_output=True,
            text=True,
            timeout=60,
        )
        return ended.returncode, ended.stdout + ended.stderr

    code, tail = ringrift("events", "tail", "--names", "lab.probe_read")
    assert (code, "lab.probe_read" in tail, "celsius=21.5" in tail) == (0, True, True), tail
    assert json.loads(ringrift("events", "show", id)[1])["body"]["probe"] == "p1"
    schema = json.loads(ringrift("events", "schema")[1])
    assert set(schema["$defs"]["lab.probe_read"]["properties"]) == {"type", "probe", "celsius"}
    channels = json.loads(ringrift("events", "schema", "--asyncapi")[1])["channels"]
    assert "lab.probe_read" in channels
    assert "twice.same" not in channels
    _, doctor = ringrift("doctor")
    assert "broken_lab (broken_lab) is left out: ModuleNotFoundError: No module named 'no_such_module'" in doctor
    for lab in ("first_lab", "second_lab"):
        assert f"{lab} ({lab}) is left out: another package declares twice.same too" in doctor
    assert "thief (thief) is left out: another package declares model.promoted too" in doctor
    assert "my_lab" not in doctor
    assert ringrift("status")[0] == 0
