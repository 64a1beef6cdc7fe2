"""Burial: how a line goes on when one of its jobs will never be done, and what it gives up for lost."""

from ringrift.events import data, work
from ringrift.events.base import Event
from ringrift.jobs import Verify
from ringrift.kernel.settings import Policy
from ringrift.pipeline import challenge
from ringrift.pipeline.line import Batch, Line, Stage
from ringrift.pipeline.models import Change, State
from ringrift.pipeline.moves import collect, copy_games, reject, review_keys, start
from ringrift.pipeline.step import Step, changed, with_more

COPY_ROUNDS_MAX = 50
"""Rounds of tries to copy a batch whose holder does not answer: about an hour, then it is gone for good."""


def buried(line: Line, event: work.Buried, policy: Policy, at: float) -> Step:
    """A job of the line will not be done.  The line goes on without it, and says what it gave up."""
    blob, candidate = event.blob, line.candidate
    waiting = next((batch for batch in line.pending if copy_games(line, batch.blob).key == event.key), None)
    asked = event.key == line.asked
    match event.kind, line.stage:
        case "sync", _ if waiting is not None:
            return _uncopied(line, waiting, event)
        case (("play" | "match" | "train"), _) if blob is not None and blob == line.champion:
            return _champion_lost(line, event.error, policy, at)
        case (("sync" | "verify" | "match"), (Stage.VERIFYING | Stage.EVALUATING)) if candidate and _awaited(
            line, event
        ):
            if line.champion is None:
                return start(line, policy, at)
            return reject(line, f"{event.kind} failed: {event.error}", None, policy, at)
        case "export", Stage.EXPORTING if asked:
            return _export_again(line, blob, event.error, policy, at)
        case "train", Stage.TRAINING if asked:
            return collect(line, policy, at)
        case "train", Stage.STARTING if asked:
            return start(line, policy, at)
        case "distribute", Stage.DISTRIBUTING if asked:
            return collect(line, policy, at)  # nodes that lack the champion fetch it when they need it
    return Step(line=line)


def without(line: Line, blobs: tuple[str | None, ...], reason: str) -> tuple[Line, tuple[Event, ...]]:
    """The line without those of *blobs* that are in its window, counted as lost, and what is said of them."""
    bad = [batch for batch in line.window if batch.blob in blobs]
    games, counts = sum(batch.games for batch in bad), line.counts
    line = changed(
        line,
        window=tuple(batch for batch in line.window if batch not in bad),
        counts=changed(
            counts, kept=counts.kept - len(bad), games_kept=counts.games_kept - games, lost=counts.lost + len(bad),
            games_lost=counts.games_lost + games,
        ),
    )  # fmt: skip
    return line, tuple(data.Lost(variant=line.variant, blob=batch.blob, reason=reason) for batch in bad)


def _awaited(line: Line, event: work.Buried) -> bool:
    """Whether the candidate cannot do without the job that was buried."""
    candidate = line.candidate
    assert candidate is not None
    match event.kind:
        case "sync":
            return not candidate.copied and event.key == copy_games(line, candidate.model).key
        case "verify":
            return not candidate.verified and event.key == Verify(variant=line.variant, model=candidate.model).key
    return event.key.startswith(challenge.keys(line.variant, candidate.model))


def _uncopied(line: Line, batch: Batch, event: work.Buried) -> Step:
    """A batch without its copies: lost if no copy is left, else it is tried again, for it may be there still."""
    if event.blob == batch.blob or batch.rounds >= COPY_ROUNDS_MAX:
        return lost(line, batch, event.error)
    again = changed(batch, rounds=batch.rounds + 1)
    line = changed(line, pending=tuple(again if one is batch else one for one in line.pending))
    return Step(line=line, jobs=(copy_games(line, batch.blob),))


def lost(line: Line, batch: Batch, reason: str) -> Step:
    """A batch that waits for its copies is given up."""
    counts = changed(line.counts, lost=line.counts.lost + 1, games_lost=line.counts.games_lost + batch.games)
    line = changed(line, pending=tuple(b for b in line.pending if b is not batch), counts=counts)
    return Step(line=line, events=(data.Lost(variant=line.variant, blob=batch.blob, reason=reason),))


def _export_again(line: Line, blob: str | None, reason: str, policy: Policy, at: float) -> Step:
    """An export that failed on one batch goes on without it; one that failed for no known batch waits for new games."""
    line, said = without(line, (blob,), reason)
    if said:
        line = changed(line, fresh=sum(batch.games for batch in line.window))
    return with_more(collect(line, policy, at), events=said)


def _champion_lost(line: Line, reason: str, policy: Policy, at: float) -> Step:
    """No copy of the champion is left anywhere: go back to the one before it, or to generation 0."""
    assert line.champion is not None
    said = data.Lost(variant=line.variant, blob=line.champion, reason=reason)
    cancel = review_keys(line.variant, line.champion, line.review)
    changes = [Change(model=line.champion, generation=line.generation, state=State.LOST)]
    if line.candidate is not None:
        cancel += (challenge.keys(line.variant, line.candidate.model),)
        given_up = line.candidate
        changes.append(Change(model=given_up.model, generation=given_up.generation, state=State.REJECTED))
    if not line.ancestors:
        step = start(line, policy, at)
    else:
        *earlier, last = line.ancestors
        changes.append(Change(model=last.model, generation=last.generation, state=State.CHAMPION))
        line = changed(
            line, champion=last.model, generation=last.generation, ancestors=tuple(earlier), review=None, candidate=None
        )
        step = collect(line, policy, at)
    return with_more(step, events=(said,), models=tuple(changes), cancel=cancel)
