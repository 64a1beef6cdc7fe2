"""Completing: what an event of old style leaves out is found first: the line that it means, the model in its file."""

from typing import Any

import msgspec

from ringrift.events import custom, old_names
from ringrift.events.pipeline import Requested
from ringrift.pipeline.records import lines
from ringrift_compat.ambient import Embedded
from ringrift_compat.saying import Saying, brings_a_file
from ringrift_compat.taking_in import model_of


async def completed(node: Embedded, saying: Saying) -> Saying:
    """*saying* with what it leaves out.  Raises InputError or JobFailed where it brings a file that is no model."""
    if brings_a_file(saying.name, saying.payload):
        return _with(node, saying, model_id=await model_of(node, saying.payload))
    return await meant(node, saying)


async def meant(node: Embedded, saying: Saying) -> Saying:
    """*saying*, which is for the only line there is if it asks for a stage and does not say of which variant.

    Where there are several lines, or none, it stays what was said: to choose one would be to invent it.
    """
    row = old_names.resolve(saying.name)
    if row is None or row.event is not Requested or not isinstance(saying.event, custom.Said):
        return saying
    async with node.store.read() as view:
        known = [line.variant for line in await lines(view)]
    return _with(node, saying, variant=known[0]) if len(known) == 1 else saying


def _with(node: Embedded, saying: Saying, **more: Any) -> Saying:
    payload = {**saying.payload, **more}
    event = old_names.convert(saying.name, payload, strict=node.settings.bus.strict, evidence=False)
    return msgspec.structs.replace(saying, payload=payload, event=event)
