"""Checks: the promises, each as a function over recorded history that returns what breaks it.

The numbers are those of the invariants the project promises (docs/why/promises.md).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from ringrift.pipeline.line import Line
from ringrift.store.ports import Delivery

Notes = Sequence[tuple[str, int]]


def acked_are_stored(acked: Iterable[str], stored: Collection[str]) -> list[str]:
    """I1: what was acknowledged is on stable storage."""
    return [f"I1: acknowledged event {id} is not stored" for id in acked if id not in stored]


def acked_are_handled(acked: Iterable[str], handled: Mapping[str, Collection[str]]) -> list[str]:
    """I2 for handlers: every acknowledged event is delivered at least once, each time under the same key."""
    never = [f"I2: event {id} never reached the handler" for id in acked if id not in handled]
    twice = [f"I2: event {id} was handled under {len(keys)} keys" for id, keys in handled.items() if len(keys) > 1]
    return never + twice


def acked_are_settled(acked: Iterable[str], effects: Mapping[str, int], parked: Collection[str]) -> list[str]:
    """I2 and I8: what was acknowledged reached the reader, or is a dead letter that says why."""
    return [f"I2: event {id} reached nobody" for id in acked if id not in effects and id not in parked]


def effects_are_single(effects: Mapping[str, int]) -> list[str]:
    """I3: an effect is applied exactly once."""
    return [f"I3: event {id} took effect {count} times" for id, count in effects.items() if count != 1]


def nothing_is_invented(effects: Iterable[str], tried: Collection[str]) -> list[str]:
    """I4: nothing is delivered that nobody attempted."""
    return [f"I4: event {id} was never published" for id in effects if id not in tried]


def readers_only_advance(advanced: Notes) -> list[str]:
    """I5: every reader takes positions in order, none twice."""
    found, places = [], dict[str, int]()
    for reader, position in advanced:
        if position < places.get(reader, 0):
            found.append(f"I5: reader {reader} went back from {places[reader]} to {position}")
        places[reader] = position
    return found


def newest_holder_finishes_once(claimed: Notes, finished: Notes) -> list[str]:
    """I6: at most one completion of a job is accepted, and it is the newest holder's."""
    newest: dict[str, int] = {}
    for job, fence in claimed:
        newest[job] = max(fence, newest.get(job, 0))
    counts = Counter(job for job, _ in finished)
    found = [f"I6: job {job} was finished {count} times" for job, count in counts.items() if count > 1]
    stale = [(job, fence) for job, fence in finished if fence != newest.get(job)]
    return found + [f"I6: job {job} was finished under fence {f}, newest {newest.get(job)}" for job, f in stale]


def fences_grow(claimed: Notes) -> list[str]:
    """I14 within a run: a fence is never given twice."""
    found, last = [], dict[str, int]()
    for job, fence in claimed:
        if fence <= last.get(job, 0):
            found.append(f"I14: job {job} got fence {fence} after {last[job]}")
        last[job] = fence
    return found


def work_is_conserved(enqueued: int, counted: Mapping[str, int], tally: Mapping[tuple[str, str], int]) -> list[str]:
    """I7: enqueued = ready + claimed + done + dead + cancelled, always."""
    found = []
    if sum(counted.values()) != enqueued:
        found.append(f"I7: {enqueued} jobs were enqueued, but {dict(counted)} are there")
    told: Counter[str] = Counter()
    for (_, state), count in tally.items():
        told[state] += count
    if dict(told) != {state: count for state, count in counted.items() if count}:
        found.append(f"I7: the tally says {dict(told)}, counting says {dict(counted)}")
    return found


def terms_never_go_back(led: Notes) -> list[str]:
    """I13: no effect of an older term of a role after one of a newer."""
    found, terms = [], dict[str, int]()
    for role, term in led:
        if term < terms.get(role, 0):
            found.append(f"I13: an effect of term {term} of {role} after one of {terms[role]}")
        terms[role] = max(term, terms.get(role, 0))
    return found


def letters_are_told(letters: Sequence[Delivery], tries_max: int) -> list[str]:
    """I8: a dead letter carries its error, its tries and its times."""
    return [
        f"I8: dead letter {letter.reader}@{letter.position} lacks its story: {letter}"
        for letter in letters
        if letter.state == "dead" and (not letter.error or letter.attempts < tries_max or letter.last < letter.first)
    ]


def only_probes_fail(letters: Sequence[Delivery]) -> list[str]:
    """No reaction of ours fails, not even once: what it asserts about its records would be hidden in a letter."""
    ours = [letter for letter in letters if letter.reader != "probe"]
    return [f"the reaction of {one.reader} to {one.position} failed: {one.error or one.attempts}" for one in ours]


def batches_are_counted(line: Line | None, told: int) -> list[str]:
    """No batch is lost or counted twice: the line counts exactly the batches that were announced."""
    if line is None:
        return ["the line was never opened"]
    counts = line.counts
    if counts.batches != told:
        return [f"{told} batches were announced, but the line counts {counts.batches}"]
    return []
