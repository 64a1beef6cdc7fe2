"""Logs: one object a line, in files that rotate and never outgrow their limit, one of each process; read as one."""

import json
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from logging.handlers import RotatingFileHandler
from pathlib import Path

import msgspec

from ringrift.cli.live import describe_event
from ringrift.events import alert, daemon, data, evaluation, health, model, node, pipeline, work
from ringrift.events.base import Envelope, Event, Unknown
from ringrift.kernel.errors import SettingsError, printable
from ringrift.kernel.settings import SweepSettings
from ringrift.kernel.value import Value
from ringrift.node import Node
from ringrift.worker import Worker

_TEXT_CHARACTERS_MAX = 2000
_EVENTS = (  # about jobs, and decisions
    *(work.Started, work.Finished, work.Failed, work.Buried, work.Cancelled, work.Rescued, work.RunStateChanged),
    *(model.Promoted, model.Rejected, model.RolledBack, model.Imported, pipeline.Moved, pipeline.Overdue),
    *(evaluation.Reviewed, evaluation.VelocityChanged, alert.Raised, alert.Cleared, health.RecoveryStarted),
    *(data.Imported, data.Lost),
    *(node.Joined, node.Left, node.Suspected, node.Quarantined, node.Released, daemon.Failed, daemon.Stalled),
)
_WARNINGS = (work.Failed, alert.Raised, model.RolledBack, node.Suspected, node.Quarantined, daemon.Stalled)
log = logging.getLogger("ringrift.events")


class LogLine(Value):
    """A line of the log: *part* wrote it, about *job*, *variant* and *node* if it is about such."""

    time: float
    level: str
    part: str
    text: str
    node: str = ""
    job: str = ""
    variant: str = ""
    event: str = ""
    error: str = ""  #: A traceback.


class _JsonLines(logging.Formatter):
    """One object a line: newlines and control characters in a message cannot forge another."""

    def __init__(self, node: str) -> None:
        super().__init__()
        self._node = node

    def format(self, record: logging.LogRecord) -> str:
        line = {"time": record.created, "level": record.levelname, "part": record.name, "text": record.getMessage()}
        line |= {"node": self._node} if self._node else {}
        line |= getattr(record, "facts", {})
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


def start_logs(home: str, limits: SweepSettings, *, debug: bool, trace: bool = False, node: str = "") -> Path:
    """Log to *home*/logs/ringrift.log, rotated; with *debug* in detail and to stderr as well.  The file's path.

    A process with a single *node* logs into the file of this node beside it.  With *trace* every span, event and
    delivery is logged too.  Raises SettingsError if *home* cannot be written.
    """
    path = Path(home) / "logs" / (f"ringrift-{node}.log" if node else "ringrift.log")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = RotatingFileHandler(path, maxBytes=limits.log_bytes_max, backupCount=limits.log_files_max - 1)
    except OSError as error:
        raise SettingsError("RINGRIFT_HOME", home, f"cannot write there: {error.strerror}") from error
    file.setFormatter(_JsonLines(node))
    root = logging.getLogger()
    root.setLevel(logging.DEBUG if debug else logging.INFO)
    root.addHandler(file)
    if trace:
        logging.getLogger("ringrift.trace").setLevel(logging.DEBUG)
    if debug:
        screen = logging.StreamHandler(sys.stderr)
        screen.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        root.addHandler(screen)
    return path


# -- one line for each job and each decision ---------------------------------------------------------------------------


def log_events(nodes: Sequence[Node | Worker]) -> None:
    """From now on log a line when a job of *nodes* starts and ends, and for each decision that one of them takes."""
    for member in nodes:
        own = [event for event in _EVENTS if event.SCOPE == "memory"] if isinstance(member, Worker) else _EVENTS
        member.router.subscribe(own, partial(_log_event, member.node_id), name="log")


async def _log_event(own: str, event: Event | Unknown, envelope: Envelope) -> None:
    if envelope.node != own or isinstance(event, Unknown):
        return  # every node of a process gets the events of all: the one that published it logs it
    text = _job_text(event) or describe_event(event) or envelope.name
    facts = {"node": own, "event": envelope.name}
    names = {"job": "job", "variant": "variant", "error": "traceback"}
    facts |= {name: value for name, field in names.items() if (value := getattr(event, field, ""))}
    log.log(_level(event), "%s", printable(text, _TEXT_CHARACTERS_MAX), extra={"facts": facts})


def _job_text(event: Event) -> str:
    """What happened to a job."""
    match event:
        case work.Started():
            resumed = ", from its checkpoint" if event.resumed else ""
            return f"{event.kind} {event.variant} started: job {event.job}, attempt {event.attempts}{resumed}"
        case work.Finished():
            return f"{event.kind} {event.variant} finished in {event.seconds:.1f} s: job {event.job}"
        case work.Failed():
            what = f"attempt {event.attempt} at job {event.job} after {event.seconds:.1f} s ({event.cause})"
            after = "" if event.again else "; the job is given up"
            return f"{event.kind} {event.variant} failed: {what}: {event.error}{after}"
        case work.Cancelled():
            return f"{event.kind} {event.variant} cancelled: job {', '.join(event.jobs)}"
        case pipeline.Moved():
            return f"{event.variant}: {event.before or 'new'} → {event.stage}"
    return ""


def _level(event: Event) -> int:
    match event:
        case work.Failed(cause=cause) if cause in work.GIVEN_BACK:
            return logging.INFO
        case work.Buried() | data.Lost() | daemon.Failed() | alert.Raised(level="critical" | "error"):
            return logging.ERROR
    return logging.WARNING if isinstance(event, _WARNINGS) else logging.INFO


# -- reading -----------------------------------------------------------------------------------------------------------


class LogReader:
    """Reads the logs of every process in one folder, from the oldest line that is there to the newest, and on."""

    def __init__(self, home: str) -> None:
        self._folder, self._rests = Path(home) / "logs", dict[Path, bytes]()
        self._places: dict[Path, tuple[int, int]] = {}  # the number of the file that was read last, and how far

    def read(self) -> list[LogLine]:
        """The lines since the last call, at first all of them, in the order of time."""
        lines = list[LogLine]()
        for path in sorted(self._folder.glob("*.log")):
            with suppress(FileNotFoundError):  # it is being rotated: the next call reads it
                for data in self._read(path):
                    with suppress(msgspec.DecodeError, UnicodeDecodeError):  # it is cut off, or of another program
                        lines.append(msgspec.json.decode(data, type=LogLine))
        return sorted(lines, key=lambda line: line.time)

    def _read(self, path: Path) -> list[bytes]:
        """The whole lines that *path* has gained, in all the files that it has been since."""
        versions = _versions(path)
        numbers = [version.stat().st_ino for version in versions]
        number, end = self._places.get(path, (0, 0))
        first, end = (numbers.index(number), end) if number in numbers else (0, 0)
        data = self._rests.get(path, b"")
        for version, number in list(zip(versions, numbers, strict=True))[first:]:
            with version.open("rb") as file:
                if os.fstat(file.fileno()).st_ino != number:
                    raise FileNotFoundError(version)
                file.seek(end)
                data += file.read()
                place, end = (number, file.tell()), 0
        self._places[path] = place
        *whole, self._rests[path] = data.split(b"\n")
        return whole


def _versions(path: Path) -> list[Path]:
    """The files of a process, oldest first."""
    rotated = [file for file in path.parent.glob(f"{path.name}.*") if file.suffix[1:].isdecimal()]
    return [*sorted(rotated, key=lambda file: -int(file.suffix[1:])), path]
