"""Judge: the checks of a chaos run, over the histories that its processes wrote and the store they left."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

import apsw

from chaos.node import EFFECT
from chaos.switches import read_history
from chaos.world import NODES, World

_SHOWN_MAX = 5


class Histories:
    """What the processes noted: every publish, every acknowledgement, every call of the durable handler."""

    def __init__(self, world: World) -> None:
        lines = read_history(world.folder, "*.history")
        self.acknowledged = [words[1] for words in lines if words[0] == "ack"]
        self.refused = Counter(words[2] for words in lines if words[0] == "refused")
        self.tried = sum(words[0] == "try" for words in lines)
        self.forked = sum(words[0] == "child_done" for words in lines)
        self.failed_children = sum(words[0] == "child_failed" for words in lines)
        self.keys: dict[str, set[str]] = defaultdict(set)
        self.calls: Counter[str] = Counter()
        for words in lines:
            if words[0] == "effect":
                self.keys[words[1]].add(words[2])
                self.calls[words[1]] += 1


def _list(what: str, ids: Iterable[str]) -> list[str]:
    """A violation that names the first of *ids*, if there are any."""
    names = list(ids)
    return [f"{len(names)} {what}: {', '.join(names[:_SHOWN_MAX])}"] if names else []


def published(world: World) -> set[str]:
    """The ids of the events of the harness in the log."""
    return {id for (id,) in world.home.ask("SELECT id FROM log WHERE name = 'custom.published'")}


def effects(world: World) -> dict[str, int]:
    """How often the reaction took effect, by event."""
    rows = world.home.ask("SELECT id, body FROM records WHERE kind = ?", EFFECT)
    return {id: int(bytes(body)) for id, body in rows}


def is_settled(world: World) -> bool:
    """Whether every acknowledged event had its effect and reached the durable handler."""
    histories = Histories(world)
    counts = effects(world)
    return all(id in counts and id in histories.keys for id in histories.acknowledged)


def check_events(world: World) -> list[str]:
    """Nothing acknowledged is lost, nothing is invented, every effect happened once."""
    histories, log, counts = Histories(world), published(world), effects(world)
    acknowledged = histories.acknowledged
    return [
        *_list("acknowledged events are not in the log", (id for id in acknowledged if id not in log)),
        *_list("acknowledged events had no effect", (id for id in acknowledged if id not in counts)),
        *_list("acknowledged events reached no handler", (id for id in acknowledged if id not in histories.keys)),
        *_list("events took effect more than once", (id for id, count in counts.items() if count != 1)),
        *_list("events were handled under several keys", (id for id, keys in histories.keys.items() if len(keys) > 1)),
        *_list("effects have no event", (id for id in counts if id not in log)),
        *_list("events were acknowledged twice", (id for id, count in Counter(acknowledged).items() if count > 1)),
    ]


def check_work(world: World) -> list[str]:
    """Jobs are conserved, batches count once, no reaction of the product failed, no champion is lost."""
    home, problems = world.home, list[str]()
    problems += home.unbalanced()
    announced, lines = home.batches(), home.lines()
    for variant, line in lines.items():
        batches = announced.get(variant, Counter())
        problems += _list(f"batches of {variant} were announced twice", (b for b, n in batches.items() if n > 1))
        if line.counts.batches != len(batches):
            problems.append(f"{variant} counts {line.counts.batches} batches, but {len(batches)} were announced")
        champion = line.champion or ""
        if champion and not list(world.blob_folder.glob(f"n?/{champion[:2]}/{champion}")):
            problems.append(f"the champion {champion[:12]} of {variant} is on no node")
    deliveries = home.ask("SELECT reader, state, error FROM deliveries WHERE state IN ('parked', 'dead')")
    problems += _list(
        "deliveries failed", (f"{r} {state}: {error}" for r, state, error in deliveries if not r.startswith("stuck"))
    )
    rolled_back = home.ask("SELECT count(*) FROM log WHERE name = 'model.rolled_back'")[0][0]
    if rolled_back:
        problems.append(f"{rolled_back} champions were given up")
    return problems


def check_file(world: World) -> list[str]:
    """The file of the store is whole."""
    db = apsw.Connection(str(world.home.database), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        rows = [row[0] for row in db.execute("PRAGMA integrity_check")]
    finally:
        db.close()
    return [] if rows == ["ok"] else [f"integrity check: {rows[:_SHOWN_MAX]}"]


def check_daemons(world: World) -> list[str]:
    """No daemon is given up at the end."""
    problems = []
    for name in NODES:
        rows = world.home.ask("SELECT json_extract(body, '$.activity.daemons.failed') FROM records"
                              " WHERE kind = 'node' AND id = ?", name)  # fmt: skip
        problems += [f"daemons of {name} are given up: {failed}" for (failed,) in rows if failed not in (None, "[]")]
    return problems


def check_jobs(world: World) -> list[str]:
    """No job was buried: every fault of the harness is the fault of a node, and ends."""
    rows = world.home.ask("SELECT body FROM log WHERE name = 'work.buried'")
    return _list("jobs were buried", (bytes(body).decode()[:200] for (body,) in rows))


def fallen(before: Mapping[str, tuple[int, int]], now: Mapping[str, tuple[int, int]]) -> list[str]:
    """Lines whose generation or batches went back."""
    pairs = [(variant, before[variant], now.get(variant, (0, 0))) for variant in before]
    return [f"{v} went back from {old} to {new} (generation, batches)" for v, old, new in pairs if min(
        new[0] - old[0], new[1] - old[1]) < 0]  # fmt: skip
