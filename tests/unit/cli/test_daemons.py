"""The daemons of every node are shown by category, and orders go to the one node that is meant."""

import json
from pathlib import Path

import pytest

from ringrift.cli.daemons import ANSWER_SECONDS_MAX, HEAD, answer, as_json, as_text, told, whose
from ringrift.cli.heard import Heard
from ringrift.cluster import orders
from ringrift.cluster.activity import Doing
from ringrift.cluster.duties import Duties, Duty
from ringrift.cluster.roster import NodeRecord
from ringrift.events.base import Envelope
from ringrift.events.daemon import Obeyed, Ordered
from ringrift.kernel.errors import InputError, NodeAway, SupervisionError, UnknownName
from ringrift.kernel.health import Status
from unit.supervision.watched import loop_clock
from unit.work.world import World, play

NOW = 10_000.0
OBEY = Duty(name="obey", category="core", since=NOW - 90.0, runs=1)
RATE = Duty(
    name="rate", category="evaluation", state="failed", status="unhealthy", reason="given up:\n no", since=NOW - 5.0,
    runs=7, failures=6, restarts=5, error="ValueError: no",
)  # fmt: skip
FILL = Duty(name="fill", category="training", since=NOW - 90.0)


def node(id: str, *duties: Duty, more: int = 0) -> NodeRecord:
    """A node that says this of its daemons."""
    return NodeRecord(
        id=id, profile="full", address=id, beat=1, doing=Doing(duties=Duties(shown=duties, more=more))
    )  # fmt: skip


TWO = Heard(here=(node("a", FILL, OBEY, RATE), node("b", OBEY)), silent=(node("c", OBEY, FILL),), seconds=15.0)


def test_a_node_shows_its_daemons_by_category() -> None:
    """Each with state, health, since when, counts, reason and last error in one line; silent nodes are named."""
    lines = as_text(TWO, NOW).splitlines()

    assert lines[0] == "node a (full)"
    assert lines[1].split() == " ".join(HEAD).split()
    assert lines[2].split()[:8] == ["core", "obey", "running", "healthy", "1", "min", "30", "s"]
    assert lines[3].split()[:2] == ["training", "fill"]
    assert " ".join(lines[4].split()) == (
        "evaluation rate failed unhealthy 5 s ago 7 6 5 given up: no ValueError: no"
    )  # fmt: skip
    assert lines[6] == "node b (full)"
    assert lines[-1] == "not heard of for 15 s: c"


def test_a_category_is_named_where_it_begins() -> None:
    """Not again in the lines below."""
    text = as_text(Heard(here=(node("a", OBEY, Duty(name="beat", category="core"), more=2),)), NOW)

    assert text.count("core") == 1
    assert text.splitlines()[-1] == "… and 2 more"


def test_what_a_newer_node_says_is_shown() -> None:
    """A category or a word for health that this version does not have is no reason to show nothing."""
    new = Duty(name="dream", category="sleep", status="dozing")

    lines = as_text(Heard(here=(node("a", new, OBEY),)), NOW).splitlines()

    assert [line.split()[:2] for line in lines[2:]] == [["core", "obey"], ["sleep", "dream"]]
    assert new.health.status is Status.UNKNOWN


def test_where_nobody_is_that_is_said() -> None:
    """And an old node, which says nothing of its daemons, is here all the same."""
    assert as_text(Heard(silent=TWO.silent), NOW).startswith("no node is here")
    assert "it says nothing of its daemons" in as_text(Heard(here=(node("a"),)), NOW)


def test_programs_get_every_field() -> None:
    """Also those that a beat leaves out because they are as usual."""
    tree = json.loads(as_json(TWO))

    assert tree["silent"] == ["c"]
    assert [found["node"] for found in tree["nodes"]] == ["a", "b"]
    assert tree["nodes"][1]["daemons"] == [
        {"name": "obey", "category": "core", "critical": False, "state": "running", "status": "healthy", "reason": "",
         "since": NOW - 90.0, "runs": 1, "failures": 0, "restarts": 0, "error": ""}
    ]  # fmt: skip


def test_an_order_goes_to_the_node_that_has_the_daemon() -> None:
    """To the one that is named, or to the only one that has it."""
    assert whose(TWO, "rate", None).id == "a"
    assert whose(TWO, "obey", "b").id == "b"
    assert whose(Heard(here=(node("a", OBEY, more=1),)), "anything", None).id == "a", "it may be among those not shown"


@pytest.mark.parametrize(
    ("found", "daemon", "where", "wrong", "words"),
    [
        (TWO, "rate", "b", UnknownName, "unknown daemon 'rate'; known: obey"),
        (TWO, "dance", None, UnknownName, "known: fill, obey, rate"),
        (TWO, "fill", "c", NodeAway, "node c cannot be reached"),
        (TWO, "fill", "z", UnknownName, "unknown node 'z'; known: a, b, c"),
        (TWO, "obey", None, InputError, "which node?  --node  a, b"),
        (Heard(gone=("a",)), "fill", "a", NodeAway, "node a cannot be reached"),
        (Heard(), "fill", None, SupervisionError, "no node is here"),
        (Heard(here=(node("a", FILL),)), "fill", None, SupervisionError, "node a takes no orders"),
        (
            Heard(here=(node("a", FILL, Duty(name="obey", state="stopped")),)), "fill", "a", SupervisionError,
            "takes no orders: its daemon obey does not run",
        ),
    ],
)  # fmt: skip
def test_what_nobody_can_carry_out_is_refused(
    found: Heard, daemon: str, where: str | None, wrong: type[Exception], words: str
) -> None:
    """Before anything is written, with an error that names what is missing."""
    with pytest.raises(wrong, match=words.replace("?", r"\?")):
        whose(found, daemon, where)


async def ordered(world: World, daemon: str) -> Envelope:
    """Give an order."""
    async with world.store.begin() as tx:
        said = Ordered(daemon=daemon, node="here", action="restart", by="me")
        return await orders.give(tx, world.scribe, said)


def test_who_orders_hears_what_came_of_it(tmp_path: Path) -> None:
    """Of this order and no other, whatever else is carried out."""

    async def story(world: World) -> Obeyed | None:
        await ordered(world, "other")
        asked = await ordered(world, "fill")
        async with world.store.read() as view:
            waiting = await orders.of(view, "here")
        for order in waiting:
            async with world.store.begin() as tx:
                await orders.settle(tx, world.scribe, order, "" if order.daemon == "fill" else "no")
        return await answer(world.store, asked, world.clock)

    done = play(tmp_path, story)

    assert done is not None
    assert told(done, "fill", "restart") == "fill on here: restart is done"


def test_who_orders_does_not_wait_for_ever(tmp_path: Path) -> None:
    """What is not done in time is kept, and that is said."""

    async def story(world: World) -> tuple[Obeyed | None, float]:
        clock = loop_clock()
        asked, begun = await ordered(world, "fill"), clock.tick()
        return await answer(world.store, asked, clock), clock.tick() - begun

    done, seconds = play(tmp_path, story, simulated=True)

    assert done is None
    assert ANSWER_SECONDS_MAX <= seconds < ANSWER_SECONDS_MAX + 1.0
    assert "not done within 10 s: the order is kept" in told(done, "fill", "restart")


def test_an_order_that_failed_says_why() -> None:
    """With the words of the node."""
    failed = Obeyed(order="o", daemon="fill", node="a", action="stop", error="still runs")

    assert told(failed, "fill", "stop") == "fill on a did not stop: still runs"
