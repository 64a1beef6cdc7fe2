"""Checks: the invariants, each as a function over recorded history that returns its violations.

The numbers are those of the invariants that the project promises (docs/why/promises.md).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from ringrift.pipeline.line import Line
from ringrift.store.ports import Delivery

_Notes = Sequence[tuple[str, int]]


def _drops(notes: _Notes, rise: int = 0) -> Iterator[tuple[str, int, int]]:
    """Each note below the highest one of its name so far plus *rise*: (name, that one, its value)."""
    highest: dict[str, int] = {}
    for name, value in notes:
        if name in highest and value < highest[name] + rise:
            yield name, highest[name], value
        highest[name] = max(value, highest.get(name, 0))


def acked_are_stored(acked: Iterable[str], stored: Collection[str]) -> list[str]:
    """I1: an acknowledged event is on stable storage."""
    return [f"I1: acknowledged event {id} is not stored" for id in acked if id not in stored]


def acked_are_handled(acked: Iterable[str], handled: Mapping[str, Collection[str]]) -> list[str]:
    """I2 for handlers: every acknowledged event is delivered at least once, each time under the same key."""
    missing = [f"I2: event {id} never reached the handler" for id in acked if id not in handled]
    twice = [f"I2: event {id} was handled under {len(keys)} keys" for id, keys in handled.items() if len(keys) > 1]
    return missing + twice


def acked_are_settled(acked: Iterable[str], effects: Mapping[str, int], parked: Collection[str]) -> list[str]:
    """I2 and I8: an acknowledged event reached the reader, or is a dead letter with its error."""
    return [f"I2: event {id} reached no reader" for id in acked if id not in effects and id not in parked]


def effects_are_single(effects: Mapping[str, int]) -> list[str]:
    """I3: an effect is applied exactly once."""
    return [f"I3: event {id} took effect {count} times" for id, count in effects.items() if count != 1]


def nothing_is_invented(effects: Iterable[str], published: Collection[str]) -> list[str]:
    """I4: every delivered event was published."""
    return [f"I4: event {id} was never published" for id in effects if id not in published]


def readers_only_advance(advanced: _Notes) -> list[str]:
    """I5: every reader takes positions in order, none twice."""
    return [f"I5: reader {name} went back from {last} to {position}" for name, last, position in _drops(advanced)]


def newest_holder_finishes_once(claimed: _Notes, finished: _Notes) -> list[str]:
    """I6: at most one completion of a job is accepted, and it is the newest holder's."""
    newest = dict(sorted(claimed))  # the highest fence of each job comes last
    counts = Counter(job for job, _ in finished)
    twice = [f"I6: job {job} was finished {count} times" for job, count in counts.items() if count > 1]
    stale = [(job, fence) for job, fence in finished if fence != newest.get(job)]
    return twice + [f"I6: job {job} was finished under fence {f}, newest {newest.get(job)}" for job, f in stale]


def fences_grow(claimed: _Notes) -> list[str]:
    """I14 within a run: a fence is never issued twice."""
    return [f"I14: job {job} got fence {fence} after {last}" for job, last, fence in _drops(claimed, rise=1)]


def work_is_conserved(enqueued: int, counted: Mapping[str, int], tally: Mapping[tuple[str, str], int]) -> list[str]:
    """I7: enqueued = ready + claimed + done + dead + cancelled, always."""
    violations = []
    if sum(counted.values()) != enqueued:
        violations.append(f"I7: {enqueued} jobs were enqueued, but {dict(counted)} exist")
    by_state: Counter[str] = Counter()
    for (_, state), count in tally.items():
        by_state[state] += count
    if dict(by_state) != {state: count for state, count in counted.items() if count}:
        violations.append(f"I7: the tally is {dict(by_state)}, but counting gives {dict(counted)}")
    return violations


def slots_are_accounted(imbalances: Mapping[str, str]) -> list[str]:
    """Every slot of self-play waits, runs, or has ended in one way, by two accounts that agree at all times."""
    return [f"I7: slots of {variant} are not accounted for: {text}" for variant, text in imbalances.items()]


def terms_never_go_back(led: _Notes) -> list[str]:
    """I13: no effect of an older term of a role after one of a newer."""
    return [f"I13: an effect of term {term} of {role} after one of {last}" for role, last, term in _drops(led)]


def dead_letters_are_complete(deliveries: Sequence[Delivery], tries_max: int) -> list[str]:
    """I8: a dead letter carries its error, its tries and its times."""
    dead = [delivery for delivery in deliveries if delivery.state == "dead"]
    incomplete = [d for d in dead if not d.error or d.attempts < tries_max or d.last < d.first]
    return [f"I8: dead letter {d.reader}@{d.position} is incomplete: {d}" for d in incomplete]


def only_probes_fail(deliveries: Sequence[Delivery]) -> list[str]:
    """No reaction of the product fails, not even once: a failed assertion would hide in a parked delivery."""
    failures = [delivery for delivery in deliveries if not delivery.reader.startswith("probe")]
    return [f"the reaction of {d.reader} to {d.position} failed: {d.error or d.attempts}" for d in failures]


def no_node_decides_alone(dead: Mapping[str, str], claims: _Notes) -> list[str]:
    """A job is not given up because its worker died, or did not start, on one node alone."""
    holders: dict[str, set[str]] = {}
    for name, _ in claims:
        job, holder = name.split(" ")
        holders.setdefault(job, set()).add(holder)
    alone = {job: error for job, error in dead.items() if "worker" in error and len(holders[job]) < 2}
    return [f"job {job} was given up after failures of {holders[job]} alone: {error}" for job, error in alone.items()]


def absent_blobs_are_not_lost(lost: _Notes, destroyed: Collection[str]) -> list[str]:
    """Games and models are given up only if a fault has *destroyed* copies, or if they are not to be trusted."""
    texts = [text for text, _ in lost if text.split(":")[0] not in destroyed and "quarantined" not in text]
    return [f"lost, but all its copies exist: {text}" for text in texts]


def batches_are_counted(line: Line | None, announced: int) -> list[str]:
    """No batch is lost or counted twice: the line counts exactly the batches that were announced."""
    if line is None:
        return ["the line was never opened"]
    batches = line.counts.batches
    return [f"{announced} batches were announced, but the line counts {batches}"] if batches != announced else []


def acknowledged_are_there(
    acked: Iterable[tuple[str, tuple[str, int], Collection[str]]],
    finished: Collection[tuple[str, int]],
    origins: Collection[str],
    files: Collection[str],
) -> list[str]:
    """I10: what was acknowledged to a worker is done at the coordinator, and its files are there."""
    missing = []
    for host, (name, fence), blobs in acked:
        is_island = name.startswith("island:")
        is_there = set(blobs).issubset(origins) if is_island else (name, fence) in finished
        gone = [blob for blob in blobs if blob not in files]
        missing += [] if is_there else [f"I10: {name} under fence {fence} was acknowledged to {host} and is not there"]
        missing += [f"I10: {blob[:12]} of {name} was acknowledged to {host} and is gone" for blob in gone]
    return missing


def leases_have_one_holder(leased: Mapping[tuple[str, int], Collection[str]]) -> list[str]:
    """I6: no lease was given to two nodes."""
    shared = {lease: hosts for lease, hosts in leased.items() if len(hosts) > 1}
    return [f"I6: job {job} was leased to {sorted(hosts)} under fence {f}" for (job, f), hosts in shared.items()]


def batches_are_announced_once(batches: _Notes) -> list[str]:
    """I11: the same games count once, however often and on whatever way they came in."""
    counts = Counter(batch for batch, _ in batches)
    return [f"I11: batch {batch[:12]} was announced {count} times" for batch, count in counts.items() if count > 1]
