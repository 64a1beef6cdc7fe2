"""Disk usage: how much the files of every node take, by kind and variant, and what the retention rule says of them."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from ringrift.blobs.folder import Folder
from ringrift.cli.formats import table
from ringrift.cluster.roster import NodeRecord
from ringrift.kernel.settings import Settings, SweepSettings
from ringrift.kernel.value import Value, changed
from ringrift.pipeline.retention import rule
from ringrift.store.ports import Store

_PAGE = 500  # blobs that are judged in one look
_PARTS = {"tmp": "unfinished", "bad": "corrupt"}  # folders beside the blobs
_UNITS = ("B", "kB", "MB", "GB", "TB")


class Usage(Value):
    """Files of one kind that have the same fate."""

    node: str = ""  #: Empty for what belongs to no node.
    kind: str
    variant: str = ""
    goes: bool = False  #: Whether the retention rule deletes them now.
    reason: str = ""
    files: int = 0
    bytes: int = 0


async def survey_node(store: Store, node: NodeRecord, settings: SweepSettings, now: float) -> list[Usage]:
    """The files of *node*, whose folder is on this machine.  Raises NodeAway."""
    folder, after, rows = Folder(node.address, node.id), "", list[Usage]()
    while page := folder.page(after, _PAGE):
        after = page[-1].blob
        async with store.read() as view:
            rulings = await rule(view, page, settings, now)
        for row in rulings:
            fate = {name: getattr(row, name) for name in ("variant", "goes", "reason")}
            rows.append(Usage(node=node.id, kind=row.kind or "other", files=1, bytes=row.size, **fate))
        rows = _sum_usage(rows)
    for name, kind in _PARTS.items():
        rows += [changed(row, node=node.id) for row in _measure(kind, [folder.root / name])]
    return rows


def survey_home(settings: Settings, home: str) -> list[Usage]:
    """The files that belong to no node: the store and the logs."""
    store = Path(settings.store.path)
    files = [store.with_name(store.name + suffix) for suffix in ("", "-wal", "-shm")]
    return [*_measure("store", files), *_measure("logs", [Path(home) / "logs"])]


def _measure(kind: str, paths: Iterable[Path]) -> list[Usage]:
    """The size of *paths*, of folders with all that is below; nothing if there are no files."""
    sizes = []
    for path in paths:
        below = [Path(at) / name for at, _, names in os.walk(path) for name in names] if path.is_dir() else [path]
        sizes += [file.lstat().st_size for file in below if file.exists()]
    return [Usage(kind=kind, files=len(sizes), bytes=sum(sizes))] if sizes else []


def _sum_usage(rows: Iterable[Usage]) -> list[Usage]:
    """*rows* added up where nothing but files and bytes differs; the largest first."""
    sums: dict[Usage, tuple[int, int]] = {}
    for row in rows:
        group = changed(row, files=0, bytes=0)
        files, size = sums.get(group, (0, 0))
        sums[group] = (files + row.files, size + row.bytes)
    totals = [changed(group, files=files, bytes=size) for group, (files, size) in sums.items()]
    return sorted(totals, key=lambda row: (row.node, -row.bytes, row.kind, row.variant, row.reason))


def size_text(size: float) -> str:
    """A number of bytes for people."""
    for unit in _UNITS[:-1]:
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} {_UNITS[-1]}"


def usage_table(rows: Sequence[Usage]) -> str:
    """How much each kind takes, by node and variant."""
    kinds = _sum_usage(changed(row, goes=False, reason="") for row in rows)
    cells = [(row.node or "—", row.kind, row.variant or "—", f"{row.files:,}", size_text(row.bytes)) for row in kinds]
    total = ("all", "", "", f"{sum(row.files for row in rows):,}", size_text(sum(row.bytes for row in rows)))
    return table(("node", "kind", "variant", "files", "size"), [*cells, total])


def fate_table(rows: Sequence[Usage], *, goes: bool) -> str:
    """What the rule deletes or keeps, and why."""
    blobs = _sum_usage(changed(row, node="", variant="") for row in rows if row.goes is goes and row.reason)
    cells = [(row.kind, f"{row.files:,}", size_text(row.bytes), row.reason) for row in blobs]
    return table(("kind", "files", "size", "because"), cells, "nothing")
