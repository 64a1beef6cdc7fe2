"""The log of a node: one object a line, in files that rotate."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from ringrift.cli.logs import start_logs
from ringrift.kernel.settings import SweepSettings


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


def test_a_message_cannot_forge_another_line(tmp_path: Path) -> None:
    """A newline in a message stays inside its object."""
    path = start_logs(str(tmp_path), SweepSettings(), debug=False)

    logging.getLogger("test").warning('one\n{"text": "two"}')

    assert [json.loads(line)["text"] for line in path.read_text().splitlines()] == ['one\n{"text": "two"}']
