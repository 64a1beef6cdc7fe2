"""Filters: every form of a specification, and the events it selects."""

from typing import Any

import pytest

from ringrift.bus.filters import EventFilter, make_filter
from ringrift.events import catalog, custom, data, node, training, work
from ringrift.events.base import Envelope, Event, LineEvent, MemoryEvent
from ringrift.kernel.errors import InputError, InvalidId

FINISHED = training.Finished(variant="v", model="m", generation=1, node="n")
GAMES = data.Synced(variant="v", blob="b", kind="games", nodes=())
MODEL = data.Synced(variant="v", blob="b", kind="model", nodes=())
LEFT = node.Left(node="n")
CUSTOM = custom.Published(event="MY_OWN_EVENT")
OTHER = custom.Published(event="my_own_event")
ALL = {"finished": FINISHED, "games": GAMES, "model": MODEL, "left": LEFT, "custom": CUSTOM, "other": OTHER}


def make_envelope(event: Event) -> Envelope:
    """An envelope with the name of *event*."""
    return Envelope(id="i", name=event.name(), body=b"")


def selected(spec: Any) -> set[str]:
    """Return the events that *spec* selects."""
    event_filter = make_filter(spec)
    return {name for name, event in ALL.items() if event_filter.matches(event, make_envelope(event))}


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        (None, set(ALL)),
        (training.Finished, {"finished"}),
        (LineEvent, {"finished", "games", "model"}),
        (Event, set(ALL)),
        (MemoryEvent, set()),
        (custom.Published, {"custom", "other"}),
        ("training.finished", {"finished"}),
        ("data.synced", {"games", "model"}),
        ("MY_OWN_EVENT", {"custom"}),
        ("custom.published", {"custom", "other"}),
        ("NEVER_PUBLISHED", set()),
        ({training.Finished, node.Left}, {"finished", "left"}),
        (("MY_OWN_EVENT", data.Synced), {"games", "model", "custom"}),
        (("MY_OWN_EVENT", custom.Published), {"custom", "other"}),
        (("my_own_event", "custom.published"), {"custom", "other"}),
        (frozenset({"MY_OWN_EVENT", "node.left"}), {"custom", "left"}),
        ((), set()),
        (lambda event, envelope: envelope.name == "node.left", {"left"}),
        (EventFilter(names=frozenset({"node.left"})), {"left"}),
    ],
)
def test_each_form_selects_its_events(spec: Any, names: set[str]) -> None:
    """Classes, base classes, names, several of them, predicates and filters select exactly their events."""
    assert selected(spec) == names


def test_a_base_class_selects_every_subclass() -> None:
    """A base class stands for every event of the catalog that is derived from it."""
    assert make_filter(LineEvent).names == {event.name() for event in catalog.EVENTS if issubclass(event, LineEvent)}
    assert make_filter(Event).names == set(catalog.BY_NAME)
    assert work.Progressed.name() in (make_filter(MemoryEvent).names or ())


def test_classes_need_no_check_of_each_event() -> None:
    """Where the name decides, there is no check for each event; a predicate is called for every name."""

    def predicate(event: Event, envelope: Envelope) -> bool:
        return True

    assert make_filter({training.Finished, LineEvent}).check is None
    assert make_filter(predicate) == EventFilter(names=None, check=predicate)
    assert make_filter("MY_OWN_EVENT").names == {"custom.published"}


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        (None, "data.lost", True),
        (data.Lost, {data.Lost, node.Left}, True),
        (data.Lost, node.Left, False),
        ("MY_OWN_EVENT", "MY_OWN_EVENT", True),
        ("MY_OWN_EVENT", "ANOTHER_EVENT", False),
        ("MY_OWN_EVENT", custom.Published, True),
        ({"MY_OWN_EVENT", data.Lost}, {"ANOTHER_EVENT", data.Lost}, True),
        ((), None, True),
        ((), data.Lost, False),
    ],
)
def test_filters_overlap_if_both_may_select_an_event(one: Any, other: Any, overlap: bool) -> None:
    """Overlap is symmetric, and custom events differ by their own names."""
    assert make_filter(one).overlaps(make_filter(other)) is overlap
    assert make_filter(other).overlaps(make_filter(one)) is overlap


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        (7, InputError),
        (3.5, InputError),
        (True, InputError),
        (object(), InputError),
        (int, InputError),
        ({7}, InputError),
        ([None], InputError),
        ([training.Finished, int], InputError),
        (b"data.lost", InputError),
        ("", InvalidId),
        ("no name", InvalidId),
        ("ü", InvalidId),
        ("1a", InvalidId),
        ("x" * 129, InvalidId),
        (["data.lost", "a b"], InvalidId),
        (FINISHED, InputError),
    ],
)
def test_an_invalid_specification_is_refused(spec: Any, error: type[Exception]) -> None:
    """Numbers, other classes, an event itself and names that are none are refused by a typed error."""
    with pytest.raises(error):
        make_filter(spec)


def test_a_class_that_is_not_listed_is_refused() -> None:
    """An event class that the catalog does not have is never published: selecting it is an error."""

    class Unlisted(Event, tag="custom.unlisted"):
        """An event that is not in the catalog."""

    with pytest.raises(InputError, match="Unlisted"):
        make_filter(Unlisted)
