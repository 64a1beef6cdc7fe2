"""The duties of a node: one small file each, one tuple in start order."""

from ringrift.daemons import beat, elect, fill, gauge, pipeline, redeliver, replicate, rescue, sweep, work
from ringrift.supervision.spec import Daemon

DAEMONS: tuple[Daemon, ...] = (
    beat.SPEC,
    elect.SPEC,
    pipeline.SPEC,
    fill.SPEC,
    work.SPEC,
    rescue.SPEC,
    redeliver.SPEC,
    gauge.SPEC,
    replicate.SPEC,
    sweep.SPEC,
)

ROLES: tuple[str, ...] = tuple(sorted({daemon.role for daemon in DAEMONS if daemon.role is not None}))
COORDINATES: frozenset[str] = frozenset({"coordinator", "full"})
"""Profiles whose nodes take roles."""
