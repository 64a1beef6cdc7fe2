"""Serves the wire: opens the one port of a coordinator and answers what comes in with the verbs below."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from ringrift.cluster.served import record_served
from ringrift.coordinator.service import STREAMS, VERBS, make_parts
from ringrift.coordinator.verbs import Parts
from ringrift.kernel.errors import TRANSIENT
from ringrift.supervision.spec import Daemon
from ringrift.wire.address import Address
from ringrift.wire.ports import Wire

_ALIVE_SECONDS = 5.0  # between two signs of life of the daemon that serves


def serving_daemon(parts: Mapping[str, Any], wire: Wire | None = None) -> Daemon:
    """The daemon that serves the wire of a node with these *parts*, over *wire* or the engine of the settings."""
    verb_parts = make_parts(parts)

    async def serve(*, alive: Callable[[], None]) -> None:
        await _serve(verb_parts, wire, alive)

    return Daemon(name="wire", run=serve, serve=True, after=("beat",), critical=True, category="core")


async def _serve(parts: Parts, wire: Wire | None, alive: Callable[[], None]) -> None:
    """Serve until cancelled."""
    from ringrift.coordinator.gate import Gate

    if wire is None:
        from ringrift.wire.open import open_wire  # its engine needs packages that one machine alone does not

        wire = open_wire(parts.settings.wire)
    bind = str(Address(host=parts.settings.wire.bind, port=parts.settings.wire.port))
    try:
        async with wire.serve(bind, Gate(parts, VERBS, STREAMS)) as address:
            await record_served(parts.store, parts.node_id, address)
            while True:
                alive()
                await parts.desks.uploads.rest_idle()
                await asyncio.sleep(_ALIVE_SECONDS)
    finally:
        await parts.desks.uploads.close()
        with suppress(*TRANSIENT):
            await record_served(parts.store, parts.node_id, "")
