"""Whether two folders of 100,000 blobs hold the same: two summaries, against ``rsync`` of folders that are equal."""

import asyncio
import hashlib
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.measure import Contest, Line, Metrics, Side
from ringrift.blobs.folder import FolderBlobs
from ringrift.sync.manifest import is_same

BLOBS = 100_000


def _fill(root: Path) -> FolderBlobs:
    blobs = FolderBlobs(root, root.name)
    blobs.folder.mark()
    for number in range(BLOBS):
        data = number.to_bytes(8, "big")
        path = blobs.folder.path(hashlib.sha256(data).hexdigest())
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    return blobs


def _compare(one: FolderBlobs, other: FolderBlobs, _: Path) -> Metrics:
    async def compare() -> float:
        began = time.perf_counter()
        assert is_same(await one.summary(), await other.summary())
        return time.perf_counter() - began

    return {"milliseconds": 1e3 * asyncio.run(compare())}


def _rsync(one: Path, other: Path, _: Path) -> Metrics:
    began = time.perf_counter()
    subprocess.run(["rsync", "-a", f"{one}/", f"{other}/"], check=True)
    return {"milliseconds": 1e3 * (time.perf_counter() - began)}


@contextmanager
def _sides(folder: Path) -> Iterator[Mapping[str, Side]]:
    one = _fill(folder / "one")
    for name in ("other", "third"):  # links: the names are what counts
        subprocess.run(["cp", "-al", str(folder / "one"), str(folder / name)], check=True)
    (folder / "other" / "node").unlink()
    other = FolderBlobs(folder / "other", "other")
    other.folder.mark()
    # A change of the same tick as a look would not be seen, so what has just changed is listed again.
    end = time.monotonic() + 10.0
    while _compare(one, other, folder)["milliseconds"] > 1000.0 and time.monotonic() < end:
        pass
    yield {"ours": partial(_compare, one, other), "raw": partial(_rsync, folder / "one", folder / "third")}


UNCHANGED = Contest(
    "unchanged",
    _sides,
    (
        Line(
            name="nothing changed",
            what="two folders of 100,000 blobs are found equal, against rsync of equal folders on one disk",
            unit="ms",
            metric="milliseconds",
            ours_max=50.0,
        ),
    ),
)
