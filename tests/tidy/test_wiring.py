"""The wiring of events: each one is said by somebody and heard by somebody, and the code itself is the witness."""

import pytest

from tidy.source import Source
from tidy.wiring import CLI, LIVE, MACHINE, Wiring, derive, full, of_the_product, problems

LOST, LEFT = "ringrift.events.node.Lost", "ringrift.events.node.Left"
EVENTS = (LOST, LEFT)
SAID = Source("src/ringrift/daemons/watch.py", "from ringrift.events import node\nf(node.Lost(node='n', seconds=1.0))")


def wired(*texts: tuple[str, str], duties: tuple[tuple[str, tuple[str, ...]], ...] = ()) -> Wiring:
    """The wiring of two events in files of these paths and texts."""
    return derive([Source(path, text) for path, text in texts], EVENTS, duties)


def test_every_event_is_said_and_heard() -> None:
    """No event is without a module that says it, or without somebody who hears it; few are only for people."""
    from ringrift.events.catalog import EVENTS as CATALOG
    from ringrift.events.catalog import FOR_PEOPLE

    wrong = problems(of_the_product(), [full(event) for event in CATALOG], {full(event) for event in FOR_PEOPLE})

    assert not wrong, "\n" + "\n".join(sorted(wrong))


def test_no_daemon_waits_for_what_never_comes() -> None:
    """A daemon's reactions are fed from the log, so events that skip the log would never reach them."""
    from ringrift.daemons import DAEMONS

    deaf = [(daemon.name, event.name()) for daemon in DAEMONS for event in daemon.on if event.SCOPE != "log"]

    assert not deaf


def test_an_event_that_nobody_says_or_hears_is_found() -> None:
    """Each event of an empty product is missed twice."""
    assert problems(wired(), EVENTS, ()) == [
        f"{LOST}: nobody says it", f"{LEFT}: nobody says it", f"{LOST}: nobody hears it", f"{LEFT}: nobody hears it",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "from ringrift.events import node\nf(node.Lost(node='n', seconds=1.0))",
        "from ringrift.events.node import Lost\nLost(node='n', seconds=1.0)",
        "from ringrift.events import node as nodes\nawait_(nodes.Lost(**fields))",
        "def f():\n    import ringrift.events.node\n    return ringrift.events.node.Lost(node='n', seconds=1.0)",
    ],
)
def test_who_makes_an_event_says_it(text: str) -> None:
    """A call of the class counts, however it was imported."""
    assert wired(("src/ringrift/daemons/watch.py", text)).said == {LOST: {"daemons.watch"}}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/ringrift/daemons/watch.py", "from ringrift.events import node\nSPEC = Daemon(on=(node.Lost,))"),
        ("src/ringrift/daemons/watch.py", "from ringrift.events import node\nmatch e:\n    case node.Lost(): pass"),
        ("src/ringrift/daemons/watch.py", '"""Says node.Lost(node=1)."""\n# node.Lost()'),
        ("src/ringrift/events/catalog.py", "from ringrift.events import node\nnode.Lost(node='n', seconds=1.0)"),
        ("src/ringrift/sim/world.py", "from ringrift.events import node\nnode.Lost(node='n', seconds=1.0)"),
    ],
)
def test_who_only_speaks_of_an_event_does_not_say_it(path: str, text: str) -> None:
    """Mentions, matches, comments, the vocabulary and the simulator say nothing."""
    assert wired((path, text)).said == {}


def test_old_names_say_what_others_said() -> None:
    """The one place of the vocabulary that makes events is where somebody's words become one."""
    text = "from ringrift.events import node\nnode.Lost(node='n', seconds=1.0)"

    assert wired(("src/ringrift/events/old_names.py", text)).said == {LOST: {"events.old_names"}}


def test_daemons_and_the_machine_hear() -> None:
    """What a daemon reacts to and what the machine has a case for is heard."""
    text = "from ringrift.events import node\nmatch e, s:\n    case node.Left(node='n') | node.Lost(), _: pass"

    found = wired((MACHINE, text), duties=(("evacuate", (LOST,)),))

    assert found.heard == {LOST: {"pipeline.machine", "daemon evacuate"}, LEFT: {"pipeline.machine"}}


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
        "router.subscribe('HOST_OFFLINE', f)",
    ],
)
def test_who_subscribes_hears(call: str) -> None:
    """A class, several, or a name in any spelling given to subscribe is heard."""
    assert LOST in wired(("src/ringrift/node.py", f"from ringrift.events import node\n{call}")).heard


@pytest.mark.parametrize("asked", ["None", "base.Event", "base.LineEvent", "catalog.EVENTS", "lambda event, _: True"])
def test_who_listens_to_everything_is_a_view(asked: str) -> None:
    """A subscription to all events makes none of them heard, and is no mistake."""
    found = wired(("src/ringrift/node.py", f"from ringrift.events import base, catalog\nrouter.subscribe({asked}, f)"))

    assert not found.heard
    assert not found.strangers


@pytest.mark.parametrize("asked", ["node.Vanished", "(node.Lost, node.Vanished)", "'NOBODY_SAYS_SO'"])
def test_a_subscription_to_nothing_is_found(asked: str) -> None:
    """What is in no catalog can never come."""
    found = wired(("src/ringrift/node.py", f"from ringrift.events import node\nrouter.subscribe({asked}, f)"))

    assert len(found.strangers) == 1
    assert found.strangers[0] in problems(found, EVENTS, ())
    assert derive([], EVENTS, [("watch", ("ringrift.events.node.Vanished",))]).strangers


def test_what_is_for_people_must_be_shown() -> None:
    """An event that only people react to must stand in told, or be looked for by another command."""
    case = "from ringrift.events import node\ndef {}(e):\n    match e:\n        case node.Lost(): return ''"
    said = (SAID.path, SAID.text)

    assert f"{LOST}: is for people, but no command shows it" in problems(wired(said), EVENTS, (LOST,))
    assert wired((LIVE, case.format("told"))).shown == {LOST: {"cli.live"}}
    assert not wired((LIVE, case.format("drawn"))).shown
    assert wired((CLI + "status.py", "from ringrift.events import node\nf(node.Lost)")).shown
    assert not wired((CLI + "run.py", "from ringrift.events import node\nnode.Lost(node='n', seconds=1.0)")).shown


def test_at_most_a_fifth_is_for_people() -> None:
    """Events that nobody of ours reacts to must stay few."""
    events = [f"e{number}" for number in range(10)]
    said = {event: {"x"} for event in events}

    assert not problems(Wiring(said=said, heard=said, shown=said), events, events[:2])
    assert problems(Wiring(said=said, heard=said, shown=said), events, events[:3]) == [
        "3 of 10 events are for people only, more than a fifth"
    ]
