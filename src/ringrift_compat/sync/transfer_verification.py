"""Transfer verification: whether a file has arrived as it was sent, and setting aside one that has not."""

import hashlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ringrift.kernel.ids import is_blob
from ringrift.sync import receipts
from ringrift_compat.embedded_node import embedded

_ASIDE = ".corrupt"
_ALGORITHMS = ("sha256", "sha1", "md5", "blake2b")


@dataclass(frozen=True)
class TransferVerification:
    """Whether a copy is good; true if it is, otherwise *reason* says what is wrong."""

    verified: bool
    path: str
    checksum: str = ""
    expected_checksum: str = ""
    size: int = 0
    reason: str = ""
    quarantined: str = ""
    """Where a bad copy lies now, if it was set aside."""

    def __bool__(self) -> bool:
        return self.verified


def compute_file_checksum(path: str | Path, algorithm: str = "sha256") -> str:
    """The checksum of a file in hexadecimal digits, read in pieces.  Raises OSError; ValueError for another one."""
    if algorithm not in _ALGORITHMS:
        raise ValueError(f"{algorithm!r} is no checksum: use one of {', '.join(_ALGORITHMS)}")
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, partial(hashlib.new, algorithm, usedforsecurity=False)).hexdigest()


def verify_transfer(
    source: str | Path,
    dest: str | Path,
    expected_checksum: str | None = None,
    *,
    algorithm: str = "sha256",
    quarantine: bool = False,
) -> TransferVerification:
    """Compare the copy *dest* with *expected_checksum*, or with the file *source* if that is not given.

    A bad copy is renamed with *quarantine*, so that no reader takes it for a good one.  *source* may be the SHA-256 of
    a file, and *dest* the id of a node: then the receipt of the verified copy on that node answers.
    """
    if is_blob(str(source)) and expected_checksum is None and not Path(dest).exists():
        return _verify_receipt(str(source), str(dest))
    path = Path(dest)
    try:
        expected = expected_checksum or compute_file_checksum(source, algorithm)
        actual, size = compute_file_checksum(path, algorithm), path.stat().st_size
    except OSError as error:
        return TransferVerification(False, str(path), reason=f"cannot be read: {error}")
    if actual == expected.lower():
        return TransferVerification(True, str(path), actual, expected, size)
    aside = path.with_name(path.name + _ASIDE)
    if quarantine:
        path.replace(aside)
    reason = f"the {algorithm} of the copy is not that of the source: it was damaged on its way; copy it again"
    return TransferVerification(False, str(path), actual, expected, size, reason, str(aside) if quarantine else "")


def _verify_receipt(blob: str, node: str) -> TransferVerification:
    rows = embedded.query(lambda view: receipts.receipts_of(view, blob))
    for row in rows:
        if row.node == node:
            return TransferVerification(True, node, blob, blob, row.size)
    holders = ", ".join(sorted(row.node for row in rows)) or "none"
    return TransferVerification(False, node, "", blob, reason=f"no receipt of a copy on {node}; there are: {holders}")
