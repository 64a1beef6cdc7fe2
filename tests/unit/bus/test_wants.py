"""What may be asked for, and what is meant by it."""

from typing import Any

import pytest

from ringrift.bus.wants import Wants, wants
from ringrift.events import catalog, custom, data, node, training, work
from ringrift.events.base import Envelope, Event, LineEvent, MemoryEvent
from ringrift.kernel.errors import InputError, InvalidId

FINISHED = training.Finished(variant="v", model="m", generation=1, node="n")
GAMES = data.Synced(variant="v", blob="b", kind="games", nodes=())
MODEL = data.Synced(variant="v", blob="b", kind="model", nodes=())
LEFT = node.Left(node="n")
SAID = custom.Said(event="TRAINING_COMPLETED", payload={"loss": 1.0})
OWN = custom.Said(event="MY_OWN_EVENT")
ALL = {"finished": FINISHED, "games": GAMES, "model": MODEL, "left": LEFT, "said": SAID, "own": OWN}


def wrapped(event: Event) -> Envelope:
    """An envelope with the name of *event*."""
    return Envelope(id="i", name=event.name(), body=b"")


def heard(asked: Any) -> set[str]:
    """Which of all are wanted."""
    wanted = wants(asked)
    return {name for name, event in ALL.items() if wanted.has(event, wrapped(event))}


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (None, set(ALL)),
        (training.Finished, {"finished"}),
        (LineEvent, {"finished", "games", "model"}),
        (Event, set(ALL)),
        (MemoryEvent, set()),
        (custom.Said, {"said", "own"}),
        ("training.finished", {"finished"}),
        ("TRAINING_COMPLETED", {"finished", "said"}),
        ("training.completed", {"finished", "said"}),
        ("Training_Complete", {"finished", "said"}),
        ("DATA_SYNC_COMPLETED", {"games"}),
        ("P2P_MODEL_SYNCED", {"model"}),
        ("data.synced", {"games", "model"}),
        ("MY_OWN_EVENT", {"own"}),
        ("my_own_event", {"own"}),
        ("custom.said", {"said", "own"}),
        ("SPLIT_BRAIN_DETECTED", set()),
        ({training.Finished, node.Left}, {"finished", "left"}),
        (["DATA_SYNC_COMPLETED", "P2P_MODEL_SYNCED"], {"games", "model"}),
        (("DATA_SYNC_COMPLETED", data.Synced), {"games", "model"}),
        (frozenset({"MY_OWN_EVENT", "node.left"}), {"own", "left"}),
        ((), set()),
        (lambda event, envelope: envelope.name == "node.left", {"left"}),
    ],
)
def test_each_form_means_something(asked: Any, found: set[str]) -> None:
    """Classes, bases, names old and new, several of them and predicates want just what they say."""
    assert heard(asked) == found


def test_a_base_means_all_that_come_from_it() -> None:
    """A base class stands for every event of the catalog that comes from it."""
    assert wants(LineEvent).names == {event.name() for event in catalog.EVENTS if issubclass(event, LineEvent)}
    assert wants(Event).names == set(catalog.names())
    assert work.Progressed.name() in (wants(MemoryEvent).names or ())


def test_classes_need_no_second_look() -> None:
    """Where the name alone tells, nothing is checked for each event; a predicate is asked about every name."""

    def predicate(event: Event, envelope: Envelope) -> bool:
        return True

    assert wants({training.Finished, LineEvent}).check is None
    assert wants(predicate) == Wants(names=None, check=predicate)
    assert wants("MY_OWN_EVENT").names == {"custom.said"}


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (7, InputError), (3.5, InputError), (True, InputError), (object(), InputError), (int, InputError),
        ({7}, InputError), ([None], InputError), ([training.Finished, int], InputError), (b"data.lost", InputError),
        ("", InvalidId), ("no name", InvalidId), ("ü", InvalidId), ("1a", InvalidId), ("x" * 129, InvalidId),
        (["data.lost", "a b"], InvalidId), (FINISHED, InputError),
    ],
)  # fmt: skip
def test_what_means_nothing_is_refused(asked: Any, error: type[Exception]) -> None:
    """Numbers, other classes, an event itself and names that are none are refused by a typed error."""
    with pytest.raises(error):
        wants(asked)


def test_a_class_that_is_not_listed_is_refused() -> None:
    """An event class that the catalog does not have would never be heard: asking for it is an error."""

    class Stranger(Event, tag="custom.stranger"):
        """An event of nobody's."""

    with pytest.raises(InputError, match="Stranger"):
        wants(Stranger)
