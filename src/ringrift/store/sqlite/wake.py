"""Wake: a datagram that tells the other processes on a store that something was committed.

It carries nothing and promises nothing: one that is lost costs the wait until the next poll, never an event.
Sockets lie below the machine's folder for temporary files, because their paths must be short.
"""

import asyncio
import hashlib
import os
import socket
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

HEARD_AT_ONCE = 64


class Wake:
    """One process's ear and voice for one database."""

    def __init__(self, database: str, heard: Callable[[], None]) -> None:
        self._heard = heard
        name = hashlib.sha256(os.path.realpath(database).encode()).hexdigest()[:16]
        self._folder = Path(tempfile.gettempdir()) / f"ringrift-{os.getuid()}" / name
        self._own = f"{os.getpid()}-{id(self):x}"
        self._socket: socket.socket | None = None
        with suppress(OSError):  # no such folder can be made here: then others wake by polling
            self._open()

    def _open(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self._folder.parent.stat().st_uid != os.getuid():
            return  # somebody else made it: nothing of ours goes in there
        ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            ear.bind(str(self._folder / self._own))
        except OSError:
            ear.close()
            raise
        self._socket = ear
        asyncio.get_running_loop().add_reader(ear, self._hear)

    def _hear(self) -> None:
        assert self._socket is not None
        with suppress(BlockingIOError):
            for _ in range(HEARD_AT_ONCE):
                self._socket.recv(1)
        self._heard()

    def tell(self) -> None:
        """Wake everybody else; whoever is gone is cleared away."""
        if self._socket is None:
            return
        with suppress(OSError):
            for name in os.listdir(self._folder):
                if name != self._own:
                    self._tell(self._socket, self._folder / name)

    def _tell(self, voice: socket.socket, path: Path) -> None:
        try:
            voice.sendto(b"!", str(path))
        except BlockingIOError:
            return  # it has not heard the last ones yet, and will look anyway
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """Stop listening."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            (self._folder / self._own).unlink(missing_ok=True)
            self._socket = None
            with suppress(OSError):  # others are still there
                self._folder.rmdir()
