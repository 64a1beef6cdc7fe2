"""Request: what follows from somebody asking for a stage out of turn; no gate is passed by, each answers."""

from ringrift.events import pipeline
from ringrift.kernel.errors import told
from ringrift.kernel.settings import Policy
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline import challenge, held, moves
from ringrift.pipeline.line import Line, Stage
from ringrift.pipeline.step import Step, with_more

GATE = "requested"
AFTER = {
    "sync": "while batches wait for their copies",
    "export": "while it is collecting",
    "train": "after an export",
    "evaluate": "after a candidate was trained, copied and checked",
    "promote": "after a match that was won",
}
"""What can be asked for, and when its turn is."""


def requested(line: Line, event: pipeline.Requested, policy: Policy, at: float) -> Step:
    """The line after a request: batches are copied again, fresh games are exported early, all else only answers.

    What the line holds until its stage is asked for is let go where every step's jobs are.
    """
    verdict = answer(line, event.stage, policy, at)
    step = Step(line=line)
    if event.stage == "sync":
        # A copy that is under way has the same key: asking again does not double it.
        step = Step(line=line, jobs=tuple(moves.copy_games(line, batch.blob) for batch in line.pending))
    elif event.stage == "export" and line.stage is Stage.COLLECTING and verdict.allowed:
        step = moves.export(line, policy, at)
    return with_more(step, verdicts=(verdict,))


def answer(line: Line, stage: str, policy: Policy, at: float) -> Verdict:
    """What the gate before *stage* says to a request."""
    allowed, rule, value, limit = _gate(line, stage, policy)
    return Verdict(gate=GATE, allowed=allowed, rule=f"{told(stage, 40)}: {rule}", value=value, limit=limit, since=at)


def _gate(line: Line, stage: str, policy: Policy) -> tuple[bool, str, float, float]:
    """Whether *stage* may be gone into, by which rule, where *line* stands by it, and its limit."""
    waiting = held.waiting(line, stage)
    if waiting:
        return True, "jobs that were held until it is asked for", waiting, 1
    match stage:
        case "sync":
            return bool(line.pending), "batches that wait for their copies", len(line.pending), 1
        case "export" if line.stage is Stage.COLLECTING:
            games = line.fresh if line.window else 0
            return games > 0, "games kept since the last export", games, 1
        case "train" if line.stage is Stage.TRAINING:
            return True, "it is under way", 1, 1
        case "evaluate" if line.stage is Stage.EVALUATING:
            return True, "it is under way", 1, 1
        case "evaluate" if line.stage is Stage.VERIFYING and line.candidate is not None:
            return False, "it follows by itself: copied and checked", line.candidate.copied + line.candidate.verified, 2
        case "promote" if line.candidate is not None and line.candidate.challenge is not None:
            outcome = challenge.outcome(line.candidate.challenge, line.players)
            return False, f"only evidence promotes: {outcome.rule}", outcome.llr, outcome.upper
    if stage not in AFTER:
        return False, f"no such stage; there are {', '.join(AFTER)}", 0, 1
    return False, f"the line is {line.stage}, and this comes only {AFTER[stage]}", 0, 1
