"""Which kinds of job a node takes, by its profile and in quarantine."""

from ringrift.jobs import GAME_KINDS, JOB_KINDS, NODE_KINDS, Play
from ringrift.kernel.verdict import Verdict
from ringrift.store.records import Records

# Profile → the kinds of job it takes.  A coordinator moves files and leaves games to others.
KINDS: dict[str, frozenset[str]] = {"full": JOB_KINDS, "coordinator": NODE_KINDS, "training_node": JOB_KINDS}
KINDS |= {"selfplay": GAME_KINDS, "ephemeral": GAME_KINDS, "minimal": frozenset()}
PLAYS = frozenset(profile for profile, kinds in KINDS.items() if Play.kind() in kinds)
QUARANTINES = Records("quarantine", Verdict, checked=True)  # the reason for each quarantined node, by its id
VERDICTS = Records("verdict", Verdict)  # the latest verdict of every gate
