"""The wiring of events: each one is published and consumed by some module, as the code itself shows."""

import pytest

from tidy.source import Source
from tidy.wiring import CLI, LIVE, MACHINE, Wiring, derive, full, of_the_product, problems

LOST, LEFT = "ringrift.events.node.Lost", "ringrift.events.node.Left"
EVENTS = (LOST, LEFT)
PUBLISHER = Source(
    "src/ringrift/daemons/watch.py", "from ringrift.events import node\nf(node.Lost(node='n', seconds=1.0))"
)


def wired(*texts: tuple[str, str], duties: tuple[tuple[str, tuple[str, ...]], ...] = ()) -> Wiring:
    """The wiring of two events in files of these paths and texts."""
    return derive([Source(path, text) for path, text in texts], EVENTS, duties)


def test_every_event_is_published_and_consumed() -> None:
    """No event is without a module that publishes it or without one that consumes it; few are only for people."""
    from ringrift.events.catalog import EVENTS as CATALOG
    from ringrift.events.catalog import FOR_PEOPLE

    lines = problems(of_the_product(), [full(event) for event in CATALOG], {full(event) for event in FOR_PEOPLE})

    assert not lines, "\n" + "\n".join(sorted(lines))


def test_no_daemon_waits_for_what_never_comes() -> None:
    """A daemon's reactions are fed from the log, so events that skip the log would never reach them."""
    from ringrift.daemons import DAEMONS

    unfed = [(daemon.name, event.name()) for daemon in DAEMONS for event in daemon.on if event.SCOPE != "log"]

    assert not unfed


def test_an_event_that_is_not_published_or_consumed_is_found() -> None:
    """Each event of an empty product is missed twice."""
    assert problems(wired(), EVENTS, ()) == [
        f"{LOST}: no module publishes it",
        f"{LEFT}: no module publishes it",
        f"{LOST}: no module consumes it",
        f"{LEFT}: no module consumes it",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "from ringrift.events import node\nf(node.Lost(node='n', seconds=1.0))",
        "from ringrift.events.node import Lost\nLost(node='n', seconds=1.0)",
        "from ringrift.events import node as nodes\nawait_(nodes.Lost(**fields))",
        "def f():\n    import ringrift.events.node\n    return ringrift.events.node.Lost(node='n', seconds=1.0)",
    ],
)
def test_a_module_that_makes_an_event_publishes_it(text: str) -> None:
    """A call of the class counts, however it was imported."""
    assert wired(("src/ringrift/daemons/watch.py", text)).published == {LOST: {"daemons.watch"}}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/ringrift/daemons/watch.py", "from ringrift.events import node\nSPEC = Daemon(on=(node.Lost,))"),
        ("src/ringrift/daemons/watch.py", "from ringrift.events import node\nmatch e:\n    case node.Lost(): pass"),
        ("src/ringrift/daemons/watch.py", '"""Publishes node.Lost(node=1)."""\n# node.Lost()'),
        ("src/ringrift/events/catalog.py", "from ringrift.events import node\nnode.Lost(node='n', seconds=1.0)"),
        ("src/ringrift/sim/world.py", "from ringrift.events import node\nnode.Lost(node='n', seconds=1.0)"),
    ],
)
def test_a_mention_of_an_event_does_not_publish_it(path: str, text: str) -> None:
    """Mentions, matches, comments, the vocabulary and the simulator publish nothing."""
    assert wired((path, text)).published == {}


def test_daemons_and_the_machine_consume() -> None:
    """What a daemon reacts to and what the machine has a case for is consumed."""
    text = "from ringrift.events import node\nmatch e, s:\n    case node.Left(node='n') | node.Lost(), _: pass"

    wiring = wired((MACHINE, text), duties=(("evacuate", (LOST,)),))

    assert wiring.consumed == {LOST: {"pipeline.machine", "daemon evacuate"}, LEFT: {"pipeline.machine"}}


def test_a_case_that_no_daemon_feeds_is_found() -> None:
    """The machine sees only what a daemon hands over; a case for anything else is dead."""
    text = "from ringrift.events import node\nmatch e:\n    case node.Lost(): pass"

    assert f"{LOST}: the machine has a case for it, but no daemon hands it over" in problems(
        wired((MACHINE, text)), EVENTS, ()
    )


@pytest.mark.parametrize(
    "call",
    [
        "router.subscribe(node.Lost, f)",
        "self._router.subscribe((node.Lost, node.Left), f)",
        "parts.router.subscribe({'node.lost'}, f, name='x')",
        "events = (node.Left, node.Lost)\nrouter.subscribe(events, f)",
    ],
)
def test_a_subscriber_consumes(call: str) -> None:
    """A class, several classes or a name given to subscribe is consumed."""
    assert LOST in wired(("src/ringrift/node.py", f"from ringrift.events import node\n{call}")).consumed


@pytest.mark.parametrize(
    "argument", ["None", "base.Event", "base.LineEvent", "catalog.EVENTS", "lambda event, _: True"]
)
def test_a_subscription_to_everything_is_a_view(argument: str) -> None:
    """A subscription to all events consumes none of them, and is no mistake."""
    wiring = wired(
        ("src/ringrift/node.py", f"from ringrift.events import base, catalog\nrouter.subscribe({argument}, f)")
    )

    assert not wiring.consumed
    assert not wiring.unknown


@pytest.mark.parametrize("argument", ["node.Vanished", "(node.Lost, node.Vanished)", "'NO_SUCH_EVENT'"])
def test_a_subscription_to_nothing_is_found(argument: str) -> None:
    """What is in no catalog can never come."""
    wiring = wired(("src/ringrift/node.py", f"from ringrift.events import node\nrouter.subscribe({argument}, f)"))

    assert len(wiring.unknown) == 1
    assert wiring.unknown[0] in problems(wiring, EVENTS, ())
    assert derive([], EVENTS, [("watch", ("ringrift.events.node.Vanished",))]).unknown


def test_what_is_for_people_must_be_shown() -> None:
    """An event that only people react to must be described in the live view, or be looked for by another command."""
    case = "from ringrift.events import node\ndef {}(e):\n    match e:\n        case node.Lost(): return ''"
    publisher = (PUBLISHER.path, PUBLISHER.text)

    assert f"{LOST}: is for people, but no command shows it" in problems(wired(publisher), EVENTS, (LOST,))
    assert wired((LIVE, case.format("describe_event"))).displayed == {LOST: {"cli.live"}}
    assert not wired((LIVE, case.format("drawn"))).displayed
    assert wired((LIVE, "_SENTENCES = load('sentences.toml')")).displayed == {LEFT: {"cli.live"}}, "that file has it"
    assert wired((CLI + "commands/status.py", "from ringrift.events import node\nf(node.Lost)")).displayed
    assert not wired(
        (CLI + "commands/run.py", "from ringrift.events import node\nnode.Lost(node='n', seconds=1.0)")
    ).displayed


def test_at_most_a_fifth_is_for_people() -> None:
    """Events that no module of ours reacts to must stay few."""
    events = [f"e{number}" for number in range(10)]
    modules = {event: {"x"} for event in events}

    assert not problems(Wiring(published=modules, consumed=modules, displayed=modules), events, events[:2])
    assert problems(Wiring(published=modules, consumed=modules, displayed=modules), events, events[:3]) == [
        "3 of 10 events are for people only, more than a fifth"
    ]
