"""Logs: JSON lines in files that rotate and never outgrow their limit."""

import json
import logging
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path

from ringrift.kernel.errors import SettingsError
from ringrift.kernel.settings import SweepSettings


class _JsonLines(logging.Formatter):
    """One object a line: newlines and control characters in a message cannot forge another."""

    def format(self, record: logging.LogRecord) -> str:
        line = {"time": record.created, "level": record.levelname, "part": record.name, "text": record.getMessage()}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


def start_logs(home: str, limits: SweepSettings, *, debug: bool, trace: bool = False) -> Path:
    """Log to *home*/logs/ringrift.log, rotated; with *debug* in detail and to stderr as well.  The file's path.

    With *trace* every span, event and delivery is logged too.  Raises SettingsError if *home* cannot be written.
    """
    path = Path(home) / "logs" / "ringrift.log"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError("RINGRIFT_HOME", home, f"cannot write there: {error.strerror}") from error
    file = RotatingFileHandler(path, maxBytes=limits.log_bytes_max, backupCount=limits.log_files_max - 1)
    file.setFormatter(_JsonLines())
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
