"""The planner: no copy is wasted, none goes where it cannot, no only copy stays on a machine that may vanish."""

from math import inf
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from ringrift.sync.plan import Plan, plan
from ringrift.sync.wants import Link, PlanNode, TransferClass, Want

IDS, BLOBS = list("abcdef"), list("VWXYZ")
SIZES = {blob: size for size, blob in enumerate(BLOBS)}
NODE = st.builds(
    PlanNode,
    id=st.just(""),
    durable=st.booleans(),
    room=st.none() | st.integers(0, 9),
    site=st.sampled_from("xy"),
    reachable=st.booleans(),
    trains=st.booleans(),
    plays=st.booleans(),
)
NODES = st.dictionaries(st.sampled_from(IDS), NODE, min_size=1).map(
    lambda nodes: {
        id: PlanNode(**{name: getattr(node, name) for name in node.__struct_fields__} | {"id": id})
        for id, node in nodes.items()
    }
)
HOLDERS = st.dictionaries(st.sampled_from(BLOBS), st.sets(st.sampled_from(IDS)))
KLASSES = st.sampled_from(TransferClass)
COPIES = st.builds(
    lambda b, k, n: Want(blob=b, kind="", transfer_class=k, copies=n),
    st.sampled_from(BLOBS),
    KLASSES,
    st.integers(1, 4),
)
TARGETS = st.builds(
    lambda b, k, t: Want(blob=b, kind="", transfer_class=k, target=t),
    st.sampled_from(BLOBS),
    KLASSES,
    st.sampled_from(IDS),
)
WANTS = st.lists(COPIES | TARGETS, max_size=8, unique_by=lambda want: (want.blob, want.target)).map(
    lambda wants: [
        Want(
            blob=w.blob, kind="", transfer_class=w.transfer_class, copies=w.copies, target=w.target, size=SIZES[w.blob]
        )
        for w in wants
    ]
)
LINKS = st.lists(
    st.builds(
        Link,
        source=st.sampled_from(IDS),
        transport=st.sampled_from(["http", "ssh"]),
        is_broken=st.booleans(),
    ),
    max_size=8,
)
LIMITS = st.integers(0, 6)
_Nodes = dict[str, PlanNode]
_Holders = dict[str, set[str]]


def copies_after(result: Plan, holders: _Holders, nodes: _Nodes, blob: str) -> set[str]:
    """The reachable nodes that hold *blob* when every transfer has been made."""
    planned = {transfer.target for transfer in result.transfers if transfer.blob == blob}
    return {node for node in holders.get(blob, set()) if node in nodes and nodes[node].reachable} | planned


def room_after(result: Plan, node: PlanNode) -> float:
    """The room on *node* when every transfer has been made."""
    used = sum(transfer.size for transfer in result.transfers if transfer.target == node.id)
    return inf if node.room is None else node.room - used


@settings(max_examples=200, deadline=None)
@given(WANTS, HOLDERS, NODES, LINKS, LIMITS)
def test_nothing_is_planned_that_cannot_or_need_not_be_done(
    wants: list[Want], holders: _Holders, nodes: _Nodes, links: list[Link], limit: int
) -> None:
    """From holders that answer to nodes that answer and do not hold it, within room, breakers and a limit, once."""
    result = plan(wants, holders, nodes, links, transfers_max=limit)

    pairs = [(transfer.blob, transfer.target) for transfer in result.transfers]
    assert len(set(pairs)) == len(pairs) <= limit
    assert all(room_after(result, node) >= 0 for node in nodes.values())
    for transfer in result.transfers:
        have = holders[transfer.blob]
        assert nodes[transfer.target].reachable
        assert transfer.target not in have
        assert nodes[transfer.target].room != 0
        for route in transfer.routes:
            assert route.source in have
            assert nodes[route.source].reachable
            ways = [link for link in links if (link.source, link.transport) == (route.source, route.transport)]
            assert not ways or not all(link.is_broken for link in ways)
    ranks = [transfer.transfer_class.rank for transfer in result.transfers]
    assert ranks == sorted(ranks)


@settings(max_examples=200, deadline=None)
@given(WANTS, HOLDERS, NODES, LINKS, LIMITS, st.integers(0, 99))
def test_every_want_is_served_or_says_why_it_waits(
    wants: list[Want], holders: _Holders, nodes: _Nodes, links: list[Link], limit: int, seed: int
) -> None:
    """Nothing is dropped in silence, and the order in which wants are listed decides nothing."""
    result = plan(wants, holders, nodes, links, transfers_max=limit)

    waiting = {(wait.want.blob, wait.want.target) for wait in result.waits}
    assert not any(wait.verdict.allowed or not wait.verdict.rule for wait in result.waits)
    for want in wants:
        after = copies_after(result, holders, nodes, want.blob)
        durable = [node for node in nodes.values() if node.durable and node.reachable]
        served = want.target in after if want.target else len(after) >= want.copies
        lasting = bool(want.target) or sum(node.id in after for node in durable) >= min(want.copies, len(durable))
        assert (served and lasting) or (want.blob, want.target) in waiting
    Random(seed).shuffle(wants)
    assert plan(wants, holders, nodes, links, transfers_max=limit) == result


@settings(max_examples=200, deadline=None)
@given(WANTS, HOLDERS, NODES)
def test_no_only_copy_stays_on_machines_that_may_vanish(wants: list[Want], holders: _Holders, nodes: _Nodes) -> None:
    """With places enough, every wanted file gets a durable copy unless no durable node has room for it."""
    result = plan(wants, holders, nodes)

    for want in wants:
        after = copies_after(result, holders, nodes, want.blob)
        if not after or any(nodes[node].durable for node in after):
            continue
        durable = [node for node in nodes.values() if node.durable and node.reachable]
        assert not any(room_after(result, node) >= max(want.size, 1) for node in durable)
