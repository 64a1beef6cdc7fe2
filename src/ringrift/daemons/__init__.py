"""The duties of a node: one small file each, one tuple in start order."""

from ringrift.daemons import (
    alert,
    beat,
    elect,
    feedback,
    fill,
    gauge,
    ladder,
    obey,
    pipeline,
    point,
    rate,
    redeliver,
    replicate,
    rescue,
    sweep,
    trust,
    watch,
    work,
)
from ringrift.supervision.spec import Daemon

DAEMONS: tuple[Daemon, ...] = (
    beat.SPEC,
    elect.SPEC,
    obey.SPEC,
    alert.SPEC,
    pipeline.SPEC,
    feedback.SPEC,
    trust.SPEC,
    fill.SPEC,
    rate.SPEC,
    ladder.SPEC,
    work.SPEC,
    point.SPEC,
    rescue.SPEC,
    redeliver.SPEC,
    gauge.SPEC,
    watch.SPEC,
    replicate.SPEC,
    sweep.SPEC,
)

ROLES: tuple[str, ...] = tuple(sorted({daemon.role for daemon in DAEMONS if daemon.role is not None}))
COORDINATES: frozenset[str] = frozenset({"coordinator", "full"})
"""Profiles whose nodes take roles."""
