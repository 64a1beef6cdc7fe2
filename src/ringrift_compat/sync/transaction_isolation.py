"""Merge transactions: SQLite databases from elsewhere come into one of ours by primary key, all of them or none."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ringrift.kernel.errors import InputError, LimitReached
from ringrift.sync.merge import merge
from ringrift.sync.merge_child import MergeReport
from ringrift_compat.embedded_node import EmbeddedNode, embedded
from ringrift_compat.sync.sync_mutex import acquire

_WAIT_SECONDS = 60.0
_OPERATION = "merge"


class MergeTransaction:
    """Databases that will be merged into *target* together, or not at all.  Nothing is touched before the commit."""

    def __init__(self, target: str | Path, *, keep_target: bool = False, timeout: float = _WAIT_SECONDS) -> None:
        """*keep_target*: a row that differs stays as it is; otherwise it is an error.  *timeout*: for other merges."""
        self.target, self.state = Path(target).absolute(), "open"
        self.report: MergeReport | None = None
        """What became of the databases, once it is committed."""
        self._keep_target, self._timeout = keep_target, timeout
        self._sources: list[Path] = []
        self._checksums: dict[Path, str] = {}

    def add_source(self, path: str | Path, checksum: str | None = None) -> "MergeTransaction":
        """Add a database, whose SHA-256 must be *checksum* if that is given.  Raises InputError after the end."""
        self._require_open()
        source = Path(path).absolute()
        self._sources.append(source)
        if checksum is not None:
            self._checksums[source] = checksum.lower()
        return self

    def commit(self) -> MergeReport:
        """Merge all of them.  Raises InputError, and then the target is as it was; LimitReached if others go on."""
        self._require_open()
        self.state = "failed"
        self.report = embedded.call(self._commit(embedded.node()))
        self.state = "committed"
        return self.report

    async def _commit(self, node: EmbeddedNode) -> MergeReport:
        lock = await acquire(node, str(self.target), _OPERATION, self._timeout)
        if lock is None:
            raise LimitReached("the merge", f"merges into {self.target} at once", 1, 1)
        try:
            return await merge(self.target, self._sources, checksums=self._checksums, keep_target=self._keep_target)
        finally:
            await lock.end()

    def rollback(self) -> None:
        """Give it up; nothing has changed."""
        self._require_open()
        self.state = "rolled back"

    def _require_open(self) -> None:
        if self.state != "open":
            raise InputError(f"this merge is {self.state}: begin another one with begin_merge_transaction()")


@contextmanager
def merge_transaction(
    target: str | Path, *sources: str | Path, keep_target: bool = False, timeout: float = _WAIT_SECONDS
) -> Iterator[MergeTransaction]:
    """Merge *sources*, and what the body adds, into *target* when the body ends; if it raises, nothing is merged."""
    transaction = MergeTransaction(target, keep_target=keep_target, timeout=timeout)
    for source in sources:
        transaction.add_source(source)
    try:
        yield transaction
    except BaseException:
        if transaction.state == "open":
            transaction.rollback()
        raise
    if transaction.state == "open":
        transaction.commit()
