"""Which copies to make, from where and in which order, as a pure function; each want that waits says why.

Copies on durable nodes count first: a machine that may vanish stands in for one only where no durable node is left.
One durable copy of a file that only such machines hold is the most urgent, whatever the class of the want.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import inf

from ringrift.kernel.value import Value, changed
from ringrift.kernel.verdict import Verdict
from ringrift.sync.wants import Link, PlanNode, TransferClass, Want

GATE = "copy"  #: The gate of a want's verdict.
_TRANSFERS_MAX = 1000  # of one plan; how many of them run at once is the shaper's to say.
_Holders = Mapping[str, Collection[str]]
_Nodes = Mapping[str, PlanNode]
_Links = Mapping[str, Sequence[Link]]  # by holder


class Route(Value):
    """A holder and a transport from it."""

    source: str
    transport: str = ""  #: Empty: whichever works.


class PlannedTransfer(Value):
    """A copy to make: the first route that works is taken."""

    blob: str
    target: str
    transfer_class: TransferClass
    routes: tuple[Route, ...]
    size: int = 0
    kind: str = ""
    variant: str = ""


class Wait(Value):
    """A want that is not served by this plan, and why."""

    want: Want
    verdict: Verdict


class Plan(Value):
    """What to do now, in this order, and what waits."""

    transfers: tuple[PlannedTransfer, ...] = ()
    waits: tuple[Wait, ...] = ()


class _Books:
    """What a plan has used up so far: room on nodes, places at holders."""

    def __init__(self, nodes: _Nodes) -> None:
        self._room = {node.id: inf if node.room is None else node.room for node in nodes.values()}
        self.transfers, self.load = list[PlannedTransfer](), Counter[str]()
        self.targets = defaultdict[str, set[str]](set)  # by blob

    def has_room(self, node: str, size: int) -> bool:
        return self._room[node] > 0 and self._room[node] >= size

    def enter(self, transfer: PlannedTransfer) -> None:
        self.transfers.append(transfer)
        self.load[transfer.routes[0].source] += 1
        self.targets[transfer.blob].add(transfer.target)
        self._room[transfer.target] -= transfer.size


def plan(
    wants: Sequence[Want],
    holders: _Holders,
    nodes: _Nodes,
    links: Sequence[Link] = (),
    *,
    here: str = "",
    barred: _Holders | None = None,
    transfers_max: int = _TRANSFERS_MAX,
) -> Plan:
    """The transfers for *wants*, the most urgent first, and of equal ones the rarest; *here* gets copies first.

    *barred* has, by blob, nodes that get no copy by this plan: one has failed, and its next try is another's to start.
    Holders that are not among *nodes* or not reachable do not count as copies.  No transfer is planned to a node that
    holds the blob, has no room or cannot be reached, nor over a link whose breaker is open.
    """
    books, waits, links_of = _Books(nodes), list[Wait](), defaultdict[str, list[Link]](list)
    for link in links:
        links_of[link.source].append(link)
    present = {want.blob: _present(holders.get(want.blob, ()), nodes) for want in wants}
    every = [*_rescues(wants, present, nodes), *wants]
    for want in sorted(every, key=lambda want: _urgency(want, len(present[want.blob]))):
        usable = _without(nodes, (barred or {}).get(want.blob, ()))
        for target, verdict in _choose(want, present[want.blob], usable, books, here, holders.get(want.blob, ())):
            if verdict is None and len(books.transfers) >= transfers_max:
                verdict = _verdict("enough transfers at once", len(books.transfers), transfers_max)
            if verdict is not None:
                waits.append(Wait(want=want, verdict=verdict))
                break
            routes = _routes(want, target, present[want.blob], nodes, links_of, books.load)
            transfer = PlannedTransfer(
                blob=want.blob, target=target, transfer_class=want.transfer_class, routes=routes, size=want.size
            )
            books.enter(changed(transfer, kind=want.kind, variant=want.variant))
    return Plan(transfers=tuple(books.transfers), waits=tuple(waits))


def _verdict(rule: str, value: float, limit: float) -> Verdict:
    return Verdict(GATE, False, rule, value, limit)


def _without(nodes: _Nodes, barred: Collection[str]) -> _Nodes:
    """*nodes*, of which those *barred* take nothing."""
    return {id: changed(node, takes=False) if id in barred else node for id, node in nodes.items()} if barred else nodes


def _present(holders: Collection[str], nodes: _Nodes) -> list[str]:
    return sorted(node for node in holders if node in nodes and nodes[node].reachable)


def _is_fleeting(copies: Collection[str], nodes: _Nodes) -> bool:
    """Whether every one of *copies* is on a machine that may vanish."""
    return not any(nodes[node].durable for node in copies)


def _rescues(wants: Sequence[Want], present: Mapping[str, Sequence[str]], nodes: _Nodes) -> list[Want]:
    """An urgent want for one durable copy of each blob that only machines hold which may vanish."""
    if not any(node.durable and node.reachable for node in nodes.values()):
        return []
    single = dict[str, Want]()
    for want in sorted(wants, key=lambda want: _urgency(want, 0)):
        if present[want.blob] and _is_fleeting(present[want.blob], nodes):
            single.setdefault(want.blob, changed(want, transfer_class=TransferClass.URGENT, copies=1, target=""))
    return list(single.values())


def _urgency(want: Want, copies: int) -> tuple[int, float, int, int, str, str]:
    deadline = inf if want.deadline is None else want.deadline
    return want.transfer_class.rank, deadline, copies, want.size, want.blob, want.target


def _choose(
    want: Want, present: Sequence[str], nodes: _Nodes, books: _Books, here: str, holders: Collection[str]
) -> Iterator[tuple[str, Verdict | None]]:
    """The nodes that should get a copy, one after the other, and at the end why there are no more of them."""
    if not present:
        rule = f"no holder answers: {', '.join(sorted(holders))}" if holders else "no known holder"
        yield "", _verdict(rule, 0, 1)
        return
    copies = set(present) | books.targets[want.blob]
    if want.target:
        if want.target not in copies:
            yield want.target, _refuse_target(want, nodes, books)
        return
    lasting = sum(nodes[id].durable for id in copies)
    if lasting >= want.copies:
        return
    others = [node for node in nodes.values() if node.reachable and node.takes and node.id not in copies]
    sites = {nodes[id].site for id in present}
    fitting = [node for node in others if books.has_room(node.id, want.size)]
    fitting.sort(key=lambda node: _preference(node, want, here, sites))
    durable = [node.id for node in fitting if node.durable][: want.copies - lasting]
    # A machine that may vanish counts only for what durable nodes cannot take.
    missing = max(want.copies - len(copies) - len(durable), 0)
    fleeting = [node.id for node in fitting if not node.durable][:missing]
    yield from ((node, None) for node in (*durable, *fleeting))
    is_full = any(node.durable and node not in fitting for node in others)
    if lasting + len(durable) < want.copies and is_full:
        yield "", _verdict("no other durable node has room", lasting + len(durable), want.copies)
    elif len(fleeting) < missing:
        rule = "no other node has room" if len(fitting) < len(others) else "there is no other node"
        if tired := [node.id for node in nodes.values() if node.reachable and not node.takes]:
            rule = f"{rule}; tried again later: {', '.join(sorted(tired))}"
        yield "", _verdict(rule, len(copies) + len(durable) + len(fleeting), want.copies)


def _refuse_target(want: Want, nodes: _Nodes, books: _Books) -> Verdict | None:
    if want.target not in nodes or not nodes[want.target].reachable:
        return _verdict(f"node {want.target} cannot be reached", 0, 1)
    if not nodes[want.target].takes:
        return _verdict(f"node {want.target} did not get it and is tried again later", 0, 1)
    if not books.has_room(want.target, want.size):
        return _verdict(f"node {want.target} has no room", nodes[want.target].room or 0, want.size)
    return None


def _preference(node: PlanNode, want: Want, here: str, sites: Collection[str]) -> tuple[object, ...]:
    """Durable nodes first, then those that will need it, then another site than that of the copies, then *here*."""
    is_far = bool(node.site) and node.site not in sites
    needs = (want.transfer_class is TransferClass.SAMPLES and node.trains) or (
        want.transfer_class is TransferClass.CHAMPION and node.plays
    )
    return not node.durable, not needs, not is_far, node.id != here, -(node.room or 0), node.id


def _routes(
    want: Want, target: str, present: Sequence[str], nodes: _Nodes, links: _Links, load: Mapping[str, int]
) -> tuple[Route, ...]:
    """The ways to *target*, the best one first: near, from a holder that sends little else, fast."""

    def key(link: Link) -> tuple[bool, int, float, str, str]:
        is_far = nodes[link.source].site != nodes[target].site
        seconds = link.latency + (want.size / link.rate if link.rate else 0.0)
        return is_far, load.get(link.source, 0), seconds, link.source, link.transport

    ways = list[Link]()
    for source in present:  # where all that was measured is broken, another transport may work
        ways += [link for link in links[source] if not link.is_broken] or [Link(source=source, transport="")]
    return tuple(Route(source=link.source, transport=link.transport) for link in sorted(ways, key=key))
