"""Imports: what a documented event leaves out is added before it is published: its line, or what is in its file.

A file is imported by a running node of this home; this program opens no node for it.  A path that does not exist on
this machine belongs to another one: its event is published as it is.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ringrift.blobs.folder import Folder, FolderBlobs
from ringrift.cli.data_files import check_game_file, require_game_files, store_file
from ringrift.cli.follow_jobs import follow_jobs
from ringrift.cluster.roster import NodeRecord, Roster
from ringrift.events import data, model
from ringrift.events.pipeline import Requested
from ringrift.jobs import STAGE
from ringrift.kernel import variant as variants
from ringrift.kernel.errors import JobFailed, WorkError
from ringrift.kernel.value import changed
from ringrift.pipeline import operator
from ringrift.pipeline.foreign_games import require_turn, take_turn
from ringrift.pipeline.inbox import read_model
from ringrift.pipeline.line import LINES, require_line
from ringrift.pipeline.operator import Actor
from ringrift.sync import ledger
from ringrift.work.desk import enqueue
from ringrift.workload.registry import Registry
from ringrift_compat.embedded_node import EmbeddedNode
from ringrift_compat.events import old_names
from ringrift_compat.events.event_publish import has_game_file, has_model_file
from ringrift_compat.tasks.master_loop_guard import has_coordinator


async def complete_payload(node: EmbeddedNode, name: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    """*payload* with what its file is, a model or games, or with the variant of a request where there is only one line.

    Raises InputError or InvalidId for a file that cannot be tried, JobFailed for one that is no model or has no games
    that replay, UnknownName where its line is not open, WorkError where no node can import it.
    """
    if has_model_file(name, payload):
        return {**payload, "model_id": await _import_model(node, payload)}
    if has_game_file(name, payload):
        return {**payload, **await _import_games(node, payload)}
    row = old_names.resolve(name)
    if row is None or row.event is not Requested:
        return dict(payload)
    async with node.store.read() as view:
        lines = await LINES.all(view)
    # With several lines, or none, the request stays as it is: to choose one would be to invent it.
    return {**payload, "variant": lines[0].variant} if len(lines) == 1 else dict(payload)


async def _import_model(node: EmbeddedNode, payload: Mapping[str, Any]) -> str:
    """The model that the file of *payload* is, made and checked once, by a worker of a running node."""
    variant = _variant(payload)
    content = await asyncio.to_thread(read_model, Path(payload["model_path"]))
    roster, local = await _find_node(node, "models")
    file = await asyncio.to_thread(Folder(local.address, local.id).put, content)
    async with node.store.begin() as tx:
        existing = await operator.imported_from(tx, variant, file)
        if existing is not None:
            return existing
        await tx.put([ledger.holding(file, local.id)])
        actor = Actor(envelopes=node.envelopes, now=node.clock.now())
        job, after = await operator.import_model(tx, variant, file, actor=actor)
    result = await follow_jobs(node.store, roster, [job], after, node.clock, lambda _: None)
    for event in result.events:
        if isinstance(event, model.Imported):
            return event.model
    raise JobFailed(result.error, retry=result.pending)


async def _import_games(node: EmbeddedNode, payload: Mapping[str, Any]) -> dict[str, Any]:
    """What became of the games in the file of *payload*: those that are new count before the event is published."""
    variant = _variant(payload)
    path = await asyncio.to_thread(check_game_file, Path(payload["db_path"]))
    roster, local = await _find_node(node, "games")
    async with node.store.read() as view:
        line = await require_line(view, variant)
    await asyncio.to_thread(lambda: require_game_files(Registry.load(node.settings.work.executables), line))
    size = (await asyncio.to_thread(path.stat)).st_size
    file = await store_file(FolderBlobs(local.address, local.id), path, size, lambda _: None)
    replay = not node.settings.imports.allow_pending
    job, _ = await take_turn(node.store, node.clock, variant, file, replay=replay)
    async with node.store.begin() as tx:
        await ledger.add(tx, [(file, local.id, size)])
        newest = await tx.last(None, 1)
        await require_turn(tx, job)
        await enqueue(tx, [changed(job, priority=STAGE)], node.envelopes, node.clock.now())
    after = newest[-1].position if newest else 0
    result = await follow_jobs(node.store, roster, [job], after, node.clock, lambda _: None)
    for event in result.events:
        if isinstance(event, data.Imported):
            counts = {f"games_{name}": getattr(event, name) for name in ("repeated", "refused", "other", "pending")}
            return {"batches": list(event.batches), "games_imported": event.games, **counts}
    raise JobFailed(result.error, retry=result.pending)


def _variant(payload: Mapping[str, Any]) -> str:
    """The line that *payload* names.  Raises InvalidId."""
    return str(variants.parse(str(payload.get("config_key") or payload.get("config") or "")))


async def _find_node(node: EmbeddedNode, kind: str) -> tuple[Roster, NodeRecord]:
    """The nodes of this home, and one that runs on this machine.  Raises WorkError."""
    roster = Roster(node.store, node.clock, node.settings.cluster.beat_seconds)
    # A node that was killed is in the roster until its silence is noticed, but its lock is free at once.
    is_running = await asyncio.to_thread(has_coordinator, node.settings.store)
    local = await asyncio.to_thread(_local, await roster.present()) if is_running else []
    if not local:
        raise WorkError(f'no running node on this machine can import {kind}; start one with "ringrift run"')
    return roster, local[0]


def _local(records: Sequence[NodeRecord]) -> list[NodeRecord]:
    """The nodes whose folder is on this machine."""
    return [record for record in records if Folder(record.address, record.id).find_away() is None]
