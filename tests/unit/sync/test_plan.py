"""The planner by example: what goes first, where to and where from, and what a want that waits is told."""

from collections import Counter

import pytest

from ringrift.sync.plan import Plan, Route, plan
from ringrift.sync.wants import Link, PlanNode, TransferClass, Want

_Nodes = dict[str, PlanNode]


def fleet(**nodes: str) -> _Nodes:
    """Nodes by name, each with words about it: durable unless fleeting, reachable unless away, room=N, at:SITE."""
    result = {}
    for id, text in nodes.items():
        words = text.split()
        rooms = [int(word[5:]) for word in words if word.startswith("room=")]
        sites = [word[3:] for word in words if word.startswith("at:")]
        result[id] = PlanNode(
            id=id,
            durable="fleeting" not in words,
            reachable="away" not in words,
            room=rooms[0] if rooms else None,
            site=sites[0] if sites else "",
            trains="trains" in words,
            plays="plays" in words,
        )
    return result


def want(blob: str = "X", transfer_class: TransferClass = TransferClass.SECOND, **fields: object) -> Want:
    """A want for two copies, unless *fields* say otherwise."""
    return Want(
        **{"blob": blob, "kind": "games", "transfer_class": transfer_class, "copies": 0 if "target" in fields else 2}
        | fields
    )


@pytest.mark.parametrize(
    ("wish", "holders", "nodes", "expected"),
    [
        (want(), (), fleet(a=""), "no known holder: 0 of 1"),
        (want(), ("a",), fleet(a="away", b=""), "no holder answers: a: 0 of 1"),
        (want(), ("a",), fleet(a="", b="away"), "there is no other node: 1 of 2"),
        (want(size=9), ("a",), fleet(a="", b="room=5 fleeting"), "no other node has room: 1 of 2"),
        (want(size=9), ("a",), fleet(a="", b="room=5"), "no other durable node has room: 1 of 2"),
        (want(size=9), ("a", "c"), fleet(a="fleeting", b="room=5", c=""), "no other durable node has room: 1 of 2"),
        (want(target="b"), ("a",), fleet(a="", b="away"), "node b cannot be reached: 0 of 1"),
        (want(target="b", size=9), ("a",), fleet(a="", b="room=5"), "node b has no room: 5 of 9"),
    ],
)
def test_a_want_that_waits_says_why(wish: Want, holders: tuple[str, ...], nodes: _Nodes, expected: str) -> None:
    """The verdict names the rule, what there is and what is needed."""
    result = plan([wish], {"X": holders}, nodes)

    assert result.transfers == ()
    assert [str(wait.verdict) for wait in result.waits] == [f"copy: waits — {expected}"]


def test_a_plan_has_an_end() -> None:
    """What waits because of it says so."""
    nodes = fleet(a="", b="", c="")
    wants, holders = [want("V", size=5), want("W", size=6)], {"V": ["a"], "W": ["a"]}

    result = plan(wants, holders, nodes, transfers_max=1)

    assert len(result.transfers) == 1
    assert [wait.verdict.rule for wait in result.waits] == ["enough transfers at once"]


def test_room_is_given_once() -> None:
    """What one transfer of a plan will take is not there for the next."""
    nodes, holders = fleet(a="", b="room=5"), {"V": ["a"], "W": ["a"]}

    result = plan([want("V", size=3), want("W", size=3)], holders, nodes)

    assert [(transfer.blob, transfer.target) for transfer in result.transfers] == [("V", "b")]
    assert [str(wait.verdict) for wait in result.waits] == ["copy: waits — no other durable node has room: 1 of 2"]


def test_urgent_copies_go_first_then_by_class_deadline_and_rarity() -> None:
    """A file that only a machine holds which may vanish is more urgent than the champion."""
    nodes = fleet(a="", b="", c="", spot="fleeting")
    wants = [
        want("rare"),
        want("common", copies=3),
        want("champion", TransferClass.CHAMPION),
        want("mirror", TransferClass.MIRROR),
        want("single", TransferClass.MIRROR),
        want("later", TransferClass.SAMPLES, deadline=2.0),
        want("sooner", TransferClass.SAMPLES, deadline=1.0),
    ]
    holders = {wish.blob: ["a"] for wish in wants} | {"single": ["spot"], "common": ["a", "b"]}

    result = plan(wants, holders, nodes)

    blobs = [transfer.blob for transfer in result.transfers]
    assert blobs == ["single", "champion", "sooner", "later", "rare", "common", "mirror", "single"]
    assert (result.transfers[0].transfer_class, nodes[result.transfers[0].target].durable) == (
        TransferClass.URGENT,
        True,
    )


@pytest.mark.parametrize(
    ("wish", "nodes", "here", "expected"),
    [
        (want(), fleet(a="", b="fleeting", c=""), "b", "c"),
        (want(), fleet(a="", b="", c=""), "c", "c"),
        (want(transfer_class=TransferClass.SAMPLES), fleet(a="", b="", c="trains"), "b", "c"),
        (want(transfer_class=TransferClass.CHAMPION), fleet(a="", b="trains", c="plays"), "b", "c"),
        (want(), fleet(a="at:x", b="at:x", c="at:y"), "b", "c"),
        (want(), fleet(a="", b="room=5", c="room=9"), "", "c"),
    ],
)
def test_a_copy_goes_where_it_is_safe_and_needed(wish: Want, nodes: _Nodes, here: str, expected: str) -> None:
    """Durable before fleeting, who will need it, another site, this node, more room."""
    [transfer] = plan([wish], {"X": ["a"]}, nodes, here=here).transfers

    assert transfer.target == expected


def test_a_file_comes_from_the_best_holder() -> None:
    """Near before far, fast before slow, and not over a link that is broken: others are tried."""
    nodes = fleet(a="at:x", b="at:y", d="at:y", e="at:y", t="at:y")
    links = [
        Link(source="a", transport="http", rate=99.0),
        Link(source="b", transport="http", rate=1.0),
        Link(source="d", transport="http", rate=9.0),
        Link(source="e", transport="http", rate=99.0, is_broken=True),
        Link(source="d", transport="ssh", rate=5.0),
    ]

    [transfer] = plan([want(target="t", size=90)], {"X": list("abde")}, nodes, links).transfers

    ways = [f"{route.source}-{route.transport}" for route in transfer.routes]
    assert ways == ["e-", "d-http", "d-ssh", "b-http", "a-http"]


def test_a_copy_on_a_machine_that_may_vanish_is_no_second_copy() -> None:
    """Two durable copies are made where two durable nodes are; with one, a fleeting one stands in."""
    nodes = fleet(a="", b="", spot="fleeting", spare="fleeting")

    assert [t.target for t in plan([want()], {"X": ["spot"]}, nodes).transfers] == ["a", "b"]
    assert [t.target for t in plan([want()], {"X": ["a", "spot"]}, nodes).transfers] == ["b"]
    assert plan([want()], {"X": ["a", "b"]}, nodes) == Plan()
    nodes = fleet(a="", b="room=0", spot="fleeting")
    result = plan([want()], {"X": ["a"]}, nodes)
    assert [t.target for t in result.transfers] == ["spot"]
    assert [wait.verdict.rule for wait in result.waits] == ["no other durable node has room"]


def test_holders_share_the_sending() -> None:
    """Equal holders send to equally many; what has no measured link may go by whichever works."""
    nodes = fleet(a="", b="", **{f"t{number}": "" for number in range(6)})
    wants = [want(target=f"t{number}") for number in range(6)]

    result = plan(wants, {"X": ["a", "b"]}, nodes)

    assert Counter(transfer.routes[0] for transfer in result.transfers) == {Route(source="a"): 3, Route(source="b"): 3}
    assert len(plan(wants, {"X": ["a"]}, nodes).transfers) == 6
