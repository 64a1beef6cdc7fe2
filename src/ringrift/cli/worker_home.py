"""What a worker has in its home: its key, the authority that it trusts, where it joined, and a lock while it runs."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import msgspec

from ringrift.blobs.locks import ALONE_OR_FAIL, lock, opened
from ringrift.kernel.errors import SettingsError
from ringrift.kernel.folders import make_folder
from ringrift.kernel.value import Value
from ringrift.wire.keys import SigningKey, load_key


class Membership(Value):
    """Where a worker joined, and as what."""

    addresses: tuple[str, ...]
    profile: str
    labels: dict[str, str] = {}
    ca: bool = False  #: Whether an authority was pinned.


class WorkerHome:
    """The files of a worker below *home*."""

    def __init__(self, home: str) -> None:
        self._home, folder = home, Path(home) / "keys"
        self._joined, self._lock = folder / "joined.json", folder / "worker.lock"
        self.key_path, self.ca = folder / "node.json", folder / "ca.pem"
        self._new_key = folder / "node.new.json"  #: Of a join whose answer has not come yet.

    def membership(self) -> Membership | None:
        """Where this home joined; None if it has not.  Raises SettingsError."""
        if not self.key_path.exists():
            return None
        try:
            return msgspec.json.decode(self._joined.read_bytes(), type=Membership)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            raise SettingsError("RINGRIFT_HOME", str(self._joined), f"cannot be read: {error}") from error

    def key(self) -> SigningKey | None:
        """The key with which this home joined.  Raises SettingsError for one that is not to be trusted."""
        return load_key(self.key_path)[0] if self.key_path.exists() else None

    def new_key(self, node: str, rng: Random) -> SigningKey:
        """A key to join with, on the disk before it is sent: after a lost answer the same one joins again."""
        if self._new_key.exists():
            key = load_key(self._new_key)[0]
            if key.node == node:
                return key
        make_folder(self._new_key.parent)
        key = SigningKey.make(node, rng)
        key.save(self._new_key)
        return key

    def save(self, membership: Membership, ca: str) -> None:
        """Store that the new key was accepted."""
        if ca:
            self.ca.write_text(ca)
        self.write(membership)
        self._new_key.replace(self.key_path)

    def write(self, membership: Membership) -> None:
        """Store where it is a member."""
        self._joined.write_bytes(msgspec.json.format(msgspec.json.encode(membership)))

    def forget(self) -> None:
        """Delete everything that proves that it was a member."""
        for path in (self.key_path, self._new_key, self._joined, self.ca):
            path.unlink(missing_ok=True)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Be the only worker of this home while the body runs.  Raises SettingsError."""
        make_folder(self._lock.parent)
        with opened(self._lock, os.O_RDWR | os.O_CREAT) as descriptor:
            try:
                lock(descriptor, ALONE_OR_FAIL)
            except BlockingIOError as error:
                reason = f"a worker of this home runs already (process {self._lock.read_text().strip()})"
                raise SettingsError("RINGRIFT_HOME", self._home, f"{reason}: use another home, or stop it") from error
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
            yield

    def running(self) -> int | None:
        """The process of the worker of this home that runs; None if there is none."""
        with suppress(FileNotFoundError, ValueError), opened(self._lock, os.O_RDWR) as descriptor:
            try:
                lock(descriptor, ALONE_OR_FAIL)
            except BlockingIOError:
                return int(self._lock.read_text())
        return None
