"""Taking in: a model file that somebody's event names becomes a model of ours before the event counts.

Only a file of this machine can be taken in; a path that leads nowhere here is somebody else's and is passed on as said.
"""

from pathlib import Path
from typing import Any

from ringrift.cli.awaited import follow
from ringrift.cli.models import model_bytes
from ringrift.events import model
from ringrift.events.pipeline import Opened
from ringrift.kernel import variant as variants
from ringrift.kernel.errors import InputError, JobFailed
from ringrift.node import Node
from ringrift.pipeline import byhand
from ringrift.pipeline.byhand import Asked, Hand
from ringrift.pipeline.records import load
from ringrift.sync import ledger
from ringrift_compat import hosting
from ringrift_compat.ambient import Embedded
from ringrift_compat.stages import workload_of

OPEN_SECONDS_MAX, LOOK_SECONDS = 10.0, 0.1
DUTIES = ("pipeline", "work", "rescue")


async def model_of(node: Embedded, payload: dict[str, Any]) -> str:
    """The model that the file of *payload* is here, made and checked once in a process of its own.

    Raises InputError or InvalidId for what cannot even be tried, JobFailed for a file that is no model.
    """
    variant = str(variants.parse(str(payload.get("config_key") or payload.get("config") or "")))
    data = model_bytes(Path(payload["model_path"]))
    whole = await hosting.duties(node, *DUTIES)
    await _opened(node, whole, variant)
    [file] = await whole.blobs.put([data])
    async with node.store.begin() as tx:
        known = await byhand.imported_from(tx, variant, file)
        if known is not None:
            return known
        hand = Hand(scribe=node.scribe, ids=node.ids, now=node.clock.now())
        await tx.put([ledger.holding(file, whole.node_id)])
        asked = await byhand.take_in(tx, variant, file, hand=hand)
    return await _made(node, whole, asked)


async def _made(node: Embedded, whole: Node, asked: Asked) -> str:
    followed = await follow(node.store, whole.roster, [asked.job], asked.after, node.clock, _say_nothing)
    for event in followed.events:
        if isinstance(event, model.Imported):
            return event.model
    raise JobFailed(followed.error, retry=followed.kept)


def _say_nothing(_: str) -> None:
    """Nobody watches."""


async def _opened(node: Embedded, whole: Node, variant: str) -> None:
    """Open the line of *variant*, if it is not."""
    end = node.clock.tick() + OPEN_SECONDS_MAX
    asked = False
    while node.clock.tick() < end:
        position = node.store.position
        async with node.store.read() as view:
            if await load(view, variant) is not None:
                return
        if not asked:
            asked = True
            opening = Opened(variant=variant, workload=workload_of(variant, whole.settings))
            await node.router.publish_many([opening], source="taking_in")
        await node.store.wait(position, LOOK_SECONDS)
    raise InputError(f"the line of {variant} was not opened within {OPEN_SECONDS_MAX:g} s")
