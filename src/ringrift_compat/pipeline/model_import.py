"""Model import: what a documented event leaves out is added before it is published: its line, or the model in its file.

A file is imported by a running node of this home; this program opens no node for it.  A path that does not exist on
this machine belongs to another one: its event is published as it is.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ringrift.blobs.folder import Folder
from ringrift.cli.follow_jobs import follow_jobs
from ringrift.cluster.roster import NodeRecord, Roster
from ringrift.events import model
from ringrift.events.pipeline import Requested
from ringrift.kernel import variant as variants
from ringrift.kernel.errors import JobFailed, WorkError
from ringrift.pipeline import operator
from ringrift.pipeline.inbox import read_model
from ringrift.pipeline.line import LINES
from ringrift.pipeline.operator import Actor
from ringrift.sync import ledger
from ringrift_compat.embedded_node import EmbeddedNode
from ringrift_compat.events import old_names
from ringrift_compat.events.event_publish import has_model_file
from ringrift_compat.tasks.master_loop_guard import has_coordinator


async def complete_payload(node: EmbeddedNode, name: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    """*payload* with the model that its file is, or with the variant of a request where there is only one line.

    Raises InputError or InvalidId for a file that cannot be tried, JobFailed for one that is no model, UnknownName
    where its line is not open, WorkError where no node can import it.
    """
    if has_model_file(name, payload):
        return {**payload, "model_id": await _import_file(node, payload)}
    row = old_names.resolve(name)
    if row is None or row.event is not Requested:
        return dict(payload)
    async with node.store.read() as view:
        lines = await LINES.all(view)
    # With several lines, or none, the request stays as it is: to choose one would be to invent it.
    return {**payload, "variant": lines[0].variant} if len(lines) == 1 else dict(payload)


async def _import_file(node: EmbeddedNode, payload: Mapping[str, Any]) -> str:
    """The model that the file of *payload* is, made and checked once, by a worker of a running node."""
    variant = str(variants.parse(str(payload.get("config_key") or payload.get("config") or "")))
    content = await asyncio.to_thread(read_model, Path(payload["model_path"]))
    roster = Roster(node.store, node.clock, node.settings.cluster.beat_seconds)
    # A node that was killed is in the roster until its silence is noticed, but its lock is free at once.
    is_running = await asyncio.to_thread(has_coordinator, node.settings.store)
    local = await asyncio.to_thread(_local, await roster.present()) if is_running else []
    if not local:
        raise WorkError('no running node on this machine can import models; start one with "ringrift run"')
    file = await asyncio.to_thread(Folder(local[0].address, local[0].id).put, content)
    async with node.store.begin() as tx:
        existing = await operator.imported_from(tx, variant, file)
        if existing is not None:
            return existing
        await tx.put([ledger.holding(file, local[0].id)])
        actor = Actor(envelopes=node.envelopes, now=node.clock.now())
        job, after = await operator.import_model(tx, variant, file, actor=actor)
    result = await follow_jobs(node.store, roster, [job], after, node.clock, lambda _: None)
    for event in result.events:
        if isinstance(event, model.Imported):
            return event.model
    raise JobFailed(result.error, retry=result.pending)


def _local(records: Sequence[NodeRecord]) -> list[NodeRecord]:
    """The nodes whose folder is on this machine."""
    return [record for record in records if Folder(record.address, record.id).find_away() is None]
