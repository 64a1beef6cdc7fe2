"""The log of a node: one object a line, in files that rotate."""

import asyncio
import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ringrift.cli.commands import logs as logs_command
from ringrift.cli.logs import LogLine, LogReader, _log_event, start_logs
from ringrift.events import model, work
from ringrift.events.base import Envelope, Event
from ringrift.kernel.errors import SettingsError, UnknownName
from ringrift.kernel.settings import SweepSettings
from ringrift.kernel.verdict import Verdict
from ringrift.work.limits import log_verdict
from unit.cli.command_output import context


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """The handlers of the root logger are afterwards as they were."""
    root, before = logging.getLogger(), logging.getLogger().handlers[:]
    level = root.level
    yield
    for handler in [handler for handler in root.handlers if handler not in before]:
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)
    logging.getLogger("ringrift.trace").setLevel(logging.NOTSET)


def test_a_log_rotates_and_never_outgrows_its_limit(tmp_path: Path) -> None:
    """There are as many files as the settings allow, none larger than its limit, and the newest lines are there."""
    limits = SweepSettings(log_bytes_max=2000, log_files_max=3)
    path = start_logs(str(tmp_path), limits, debug=False)

    for number in range(200):
        logging.getLogger("test").warning("line %d", number)

    files = sorted(path.parent.iterdir())
    assert [file.name for file in files] == ["ringrift.log", "ringrift.log.1", "ringrift.log.2"]
    assert all(file.stat().st_size <= limits.log_bytes_max for file in files)
    assert json.loads(path.read_text().splitlines()[-1])["text"] == "line 199"


@pytest.mark.parametrize(("debug", "trace"), [(False, False), (True, False), (False, True)])
def test_details_are_logged_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], debug: bool, trace: bool
) -> None:
    """With *debug* every part logs in detail, and to stderr as well; with *trace* only the traces do."""
    path = start_logs(str(tmp_path), SweepSettings(), debug=debug, trace=trace)
    for part in ("ringrift.trace", "ringrift.other"):
        logging.getLogger(part).debug("detail of %s", part)

    texts = [json.loads(line)["text"] for line in path.read_text().splitlines()]
    assert texts == [f"detail of ringrift.{part}" for part, on in (("trace", debug or trace), ("other", debug)) if on]
    assert ("detail of ringrift.other" in capsys.readouterr().err) == debug


def test_each_node_that_is_a_process_of_its_own_has_a_file_of_its_own(tmp_path: Path) -> None:
    """Two processes that rotate one file would lose lines; each line names its node."""
    path = start_logs(str(tmp_path), SweepSettings(), debug=False, node="n7")
    logging.getLogger("test").warning("hello")

    assert path.name == "ringrift-n7.log"
    assert [(line.node, line.text) for line in LogReader(str(tmp_path)).read()] == [("n7", "hello")]


def test_a_message_cannot_forge_another_line(tmp_path: Path) -> None:
    """A newline in a message stays inside its object."""
    path = start_logs(str(tmp_path), SweepSettings(), debug=False)

    logging.getLogger("test").warning('one\n{"text": "two"}')

    assert [json.loads(line)["text"] for line in path.read_text().splitlines()] == ['one\n{"text": "two"}']


# -- reading -----------------------------------------------------------------------------------------------------------


def write(path: Path, *lines: tuple[float, str], **facts: str) -> None:
    """Append lines of the log, each with its time and text."""
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as file:
        for time, text in lines:
            file.write(json.dumps({"time": time, "level": "INFO", "part": "x", "text": text, **facts}) + "\n")


def test_the_logs_of_several_processes_are_read_as_one(tmp_path: Path) -> None:
    """Lines come in the order of time, older files first; a line that is cut off or no line of ours is left out."""
    logs = tmp_path / "logs"
    write(logs / "ringrift.log.1", (1.0, "a1"))
    write(logs / "ringrift.log.2", (0.5, "a0"))
    write(logs / "ringrift.log", (3.0, "a3"))
    write(logs / "ringrift-n2.log", (2.0, "b2"), (4.0, "b4"), node="n2")
    with (logs / "ringrift-n2.log").open("a") as file:
        file.write('no JSON\n{"time": 5.0, "level": "INFO", "part": "x", "te')
    reader = LogReader(str(tmp_path))

    assert [line.text for line in reader.read()] == ["a0", "a1", "b2", "a3", "b4"]
    with (logs / "ringrift-n2.log").open("a") as file:
        file.write('xt": "b5", "node": "n2"}\n')  # the writer had not finished its line
    write(logs / "new.log", (6.0, "c6"))
    assert [(line.text, line.node) for line in reader.read()] == [("b5", "n2"), ("c6", "")]
    assert reader.read() == []


def test_a_reader_survives_rotation(tmp_path: Path) -> None:
    """Each line is read once, also if the file was rotated several times since the last look."""
    path, numbers = start_logs(str(tmp_path), SweepSettings(log_bytes_max=1024, log_files_max=50), debug=False), []
    reader = LogReader(str(tmp_path))
    for step in (1, 3, 40, 2, 200):
        first = len(numbers)
        for number in range(first, first + step):
            logging.getLogger("test").warning("line %d", number)
        numbers += [int(line.text.split()[1]) for line in reader.read()]

    assert len(list(path.parent.iterdir())) > 3
    assert numbers == list(range(246))


def printed(home: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What ``ringrift logs`` with these *words* prints."""
    made = context(None, "logs", *words)
    output = logs_command._prepare(replace(made, effective=replace(made.effective, home=str(home))))
    return capsys.readouterr().out + (output.text if output else "")


def test_the_log_is_filtered_by_level_node_and_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The newest lines that fit are printed, a traceback below its line; as JSON each is one object."""
    handler = logging.getLogger("ringrift.events")
    start_logs(str(tmp_path), SweepSettings(), debug=False)
    for number, (level, node) in enumerate([("INFO", "n1"), ("WARNING", "n2"), ("ERROR", "n1")]):
        facts = {"node": node, "job": f"01JOB{number}", "error": "Traceback\n  File x, line 1\n" if number else ""}
        handler.log(getattr(logging, level), "text %d", number, extra={"facts": facts})

    assert [line[-6:] for line in printed(tmp_path, capsys).splitlines() if "text" in line] == [
        "text 0",
        "text 1",
        "text 2",
    ]
    assert "text 2\n    Traceback\n      File x, line 1" in printed(tmp_path, capsys, "--level", "error")
    assert "text 1" not in printed(tmp_path, capsys, "--level", "error")
    assert "text 1" not in printed(tmp_path, capsys, "--node", "n1")
    assert printed(tmp_path, capsys, "--job", "JOB1").count("text") == 1
    assert printed(tmp_path, capsys, "-n", "1", "--node", "n1").count("text 2") == 1
    assert json.loads(printed(tmp_path, capsys, "--json", "--job", "01JOB0"))["node"] == "n1"
    assert "no such line" in printed(tmp_path, capsys, "--job", "01JOB9")
    with pytest.raises(UnknownName, match="known: n1, n2"):
        printed(tmp_path, capsys, "--node", "n9")
    with pytest.raises(SettingsError):
        printed(tmp_path, capsys, "--count", "-1")


# -- writing -----------------------------------------------------------------------------------------------------------


def logged(tmp_path: Path, *events: tuple[Event, str]) -> list[LogLine]:
    """What node n1 logs about *events*, each published by a node."""

    async def story() -> None:
        for event, node in events:
            await _log_event("n1", event, Envelope(id="e", name=event.name(), body=b"", node=node))

    start_logs(str(tmp_path), SweepSettings(), debug=False)
    asyncio.run(story())
    return LogReader(str(tmp_path)).read()


ABOUT = {"job": "j1", "kind": "play", "variant": "hex8_2p", "node": "n1"}


def test_a_job_has_a_line_for_its_start_and_its_end(tmp_path: Path) -> None:
    """With its seconds; a failure is a warning with its traceback, one that was only stopped is not."""
    failed = work.Failed(**ABOUT, error="KeyError: 1", attempt=2, seconds=1.5, traceback="File x, line 7", again=False)
    lines = logged(
        tmp_path,
        (work.Started(**ABOUT, attempts=2), "n1"),
        (work.Finished(**ABOUT, seconds=3.25), "n1"),
        (failed, "n1"),
        (work.Failed(**ABOUT, error="node n1 is stopping", cause="stopped"), "n1"),
        (model.Rejected(variant="hex8_2p", model="m" * 64, reason="weaker"), "n1"),
        (failed, "n2"),
    )

    assert [(line.level, line.event) for line in lines] == [
        ("INFO", "work.started"),
        ("INFO", "work.finished"),
        ("WARNING", "work.failed"),
        ("INFO", "work.failed"),
        ("INFO", "model.rejected"),
    ]
    assert {line.job for line in lines[:4]} == {"j1"}
    assert {(line.node, line.variant) for line in lines} == {("n1", "hex8_2p")}
    assert "attempt 2" in lines[0].text
    assert "3.2 s" in lines[1].text
    assert all(word in lines[2].text for word in ("attempt 2", "1.5 s", "KeyError: 1", "given up"))
    assert lines[2].error == "File x, line 7"
    assert "weaker" in lines[4].text


def test_a_verdict_is_logged_when_it_changes(tmp_path: Path) -> None:
    """Another value of the same wait is no line."""
    start_logs(str(tmp_path), SweepSettings(), debug=False)
    waits = Verdict("collecting", False, "games since the last export", 10, 60)
    more, opens = (
        Verdict("collecting", is_open, waits.rule, value, 60) for is_open, value in ((False, 20), (True, 60))
    )
    for verdict, before in ((waits, None), (more, waits), (opens, waits)):
        log_verdict("hex8_2p", verdict, before)

    lines = LogReader(str(tmp_path)).read()
    assert [line.text for line in lines] == [f"hex8_2p: {waits}", f"hex8_2p: {opens}"]
    assert {(line.event, line.variant) for line in lines} == {("verdict", "hex8_2p")}
