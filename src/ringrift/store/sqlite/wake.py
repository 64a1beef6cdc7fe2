"""Wake-ups: a datagram to the other processes on a store after each commit.

It is empty and may be lost: then the others find the commit at their next poll, and never miss an event.
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

_RECEIVED_AT_ONCE = 64


class Wake:
    """The socket of one process for one database."""

    def __init__(self, database: str, on_wake_up: Callable[[], None]) -> None:
        self._on_wake_up = on_wake_up
        name = hashlib.sha256(os.path.realpath(database).encode()).hexdigest()[:16]
        self._folder = Path(tempfile.gettempdir()) / f"ringrift-{os.getuid()}" / name
        self._own = f"{os.getpid()}-{id(self):x}"
        self._socket: socket.socket | None = None
        with suppress(OSError):  # without a socket, this process finds commits by polling
            self._open()

    def _open(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self._folder.parent.stat().st_uid != os.getuid():
            return  # the folder belongs to another user: put nothing into it
        own = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            own.bind(str(self._folder / self._own))
        except OSError:
            own.close()
            raise
        self._socket = own
        asyncio.get_running_loop().add_reader(own, self._receive)

    def _receive(self) -> None:
        assert self._socket is not None
        with suppress(BlockingIOError):
            for _ in range(_RECEIVED_AT_ONCE):
                self._socket.recv(1)
        self._on_wake_up()

    def wake_others(self) -> None:
        """Wake every other process; sockets of dead ones are deleted."""
        if self._socket is None:
            return
        with suppress(OSError):
            for name in os.listdir(self._folder):
                if name != self._own:
                    self._send(self._socket, self._folder / name)

    def _send(self, own: socket.socket, path: Path) -> None:
        try:
            own.sendto(b"!", str(path))
        except BlockingIOError:
            return  # it has unread wake-ups, and will look anyway
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)

    def abandon(self) -> None:
        """In a forked child: close the socket here, and leave what belongs to the parent."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def close(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self.abandon()
            (self._folder / self._own).unlink(missing_ok=True)
            with suppress(OSError):  # the folder is not empty
                self._folder.rmdir()
