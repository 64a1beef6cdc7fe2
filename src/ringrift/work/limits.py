"""Which kinds of job a node takes, by its profile and in quarantine, and which workload does the jobs of a line."""

import logging

from ringrift.jobs import GAME_KINDS, JOB_KINDS, NODE_KINDS, Play
from ringrift.kernel.value import Value
from ringrift.kernel.verdict import Verdict
from ringrift.store.records import Records
from ringrift.workload.api import Scalar

# Profile → the kinds of job it takes.  A coordinator moves files and leaves games to others.
KINDS: dict[str, frozenset[str]] = {"full": JOB_KINDS, "coordinator": NODE_KINDS, "training_node": JOB_KINDS}
KINDS |= {"selfplay": GAME_KINDS, "ephemeral": GAME_KINDS, "minimal": frozenset()}
PLAYS = frozenset(profile for profile, kinds in KINDS.items() if Play.kind() in kinds)
QUARANTINES = Records("quarantine", Verdict, checked=True)  # the reason for each quarantined node, by its id
VERDICTS = Records("verdict", Verdict)  # the latest verdict of every gate
log = logging.getLogger(__name__)


def log_verdict(variant: str, verdict: Verdict, before: Verdict | None, node: str = "") -> None:
    """Log *verdict* about *variant* if it says something else than *before*, not only by another value."""
    if verdict.with_since_of(before) is verdict:
        facts = {"variant": variant, "event": "verdict"} | ({"node": node} if node else {})
        log.info("%s: %s", variant, verdict, extra={"facts": facts})


class LineWork(Value):
    """What the jobs of a line run with, whatever their node was started with."""

    workload: str
    params: dict[str, Scalar] = {}  # measured and set: every job of the line gets them
    requires: dict[str, dict[str, str | float]] = {}  # by kind of job what a node must have


LINE_WORK = Records("line_settings", LineWork)  # by variant: the part of the settings of a line that its jobs need
