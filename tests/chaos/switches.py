"""Switches: a page of memory that the control process shares with one process under test, to turn faults on and off."""

import mmap
import os
import struct
from pathlib import Path

_NAMES = ("clock_offset", "store_errors", "stop_in_transaction", "stuck", "quiet")
_SIZE = struct.calcsize("d")


class Switches:
    """Numbers by name, 0 until they are set; a kill of the process under test does not change them."""

    def __init__(self, path: Path) -> None:
        path.touch()
        if path.stat().st_size == 0:
            path.write_bytes(bytes(_SIZE * len(_NAMES)))
        with path.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), _SIZE * len(_NAMES))

    def get(self, name: str) -> float:
        """The value of the switch *name*."""
        value: float = struct.unpack_from("d", self._page, _NAMES.index(name) * _SIZE)[0]
        return value

    def set(self, name: str, value: float) -> None:
        """Turn a switch."""
        struct.pack_into("d", self._page, _NAMES.index(name) * _SIZE, value)


class History:
    """A file of one line per fact; a line is in the file when :meth:`add` returns, whatever happens to the process.

    The file is open all the time and lies outside the home, so no fault of the harness reaches it.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def add(self, *words: object) -> None:
        """Write one line."""
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())


def read_history(folder: Path, pattern: str) -> list[list[str]]:
    """The lines of every history file that fits *pattern*, each as its words; a line that was cut off is left out."""
    texts = [path.read_text() for path in sorted(folder.glob(pattern))]
    return [line.split() for text in texts for line in text.splitlines(keepends=True) if line.endswith("\n")]
