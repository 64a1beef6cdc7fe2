"""A daemon that is a program: foreign or blocking code as a child process of the node.

    node ── {"daemon": …, "node": …, "settings": {…}} ──▶ program              (one line on stdin, which stays open)
    node ◀── ready · alive · {"status": "degraded", "reason": …} ── program    (lines on stdout)

Its stdin ends when the node does, however that came about: a program that reads it to the end cannot outlive its node.
"""

import logging
from typing import Any, Literal

import msgspec

from ringrift.child import Child
from ringrift.kernel.errors import printable
from ringrift.kernel.health import Health, Status
from ringrift.supervision.unit import Unit

_LINE_BYTES_MAX = 64 * 1024
_REASON_CHARACTERS_MAX = 300
log = logging.getLogger(__name__)


class _StatusLine(msgspec.Struct):
    """A line of JSON from a program."""

    status: Literal["healthy", "degraded", "unhealthy"] = "healthy"
    reason: str = ""


def _parse_line(name: str, line: bytes) -> Health | None:
    """The health that *line* reports of the daemon *name*; None for any other output, which is no progress."""
    if line.strip() in (b"ready", b"alive"):
        return Health(part=name, status=Status.HEALTHY)
    try:
        report = msgspec.json.decode(line, type=_StatusLine)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    reason = printable(report.reason, _REASON_CHARACTERS_MAX)
    return Health(part=name, status=Status[report.status.upper()], reason=reason)


async def serve(unit: Unit, node: str, settings: Any) -> None:
    """Run the program of *unit* until this is cancelled.  Raises ChildDied when it ends, OSError if it cannot start."""
    name = unit.spec.name
    child = await Child.start("the program", unit.spec.process, line_bytes_max=_LINE_BYTES_MAX)
    child.write_line(msgspec.json.encode({"daemon": name, "node": node, "settings": settings}))
    unit.pid = child.pid
    try:
        async for line in child.lines():
            health = _parse_line(name, line)
            if health is None:
                log.debug("%s printed: %r", name, line[:_REASON_CHARACTERS_MAX])
            else:
                unit.report_health(health)
    finally:
        await child.end(unit.stop_seconds, close_input=True)
        unit.pid = None
