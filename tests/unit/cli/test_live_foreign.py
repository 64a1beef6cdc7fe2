"""Events of other packages that are marked for people are in the live view, by name and fields."""

from ringrift.cli.live import describe_event
from ringrift.events.base import Event


class Read(Event, tag="lab.read", for_people=True):
    """As another package declares it."""

    probe: str


class Beat(Event, tag="lab.beat"):
    """One that is only for programs."""


def test_an_event_of_another_package_is_shown_if_it_is_for_people() -> None:
    """Its name and fields are printed; one without the mark is left to the event list."""
    assert describe_event(Read(probe="p1")) == "lab.read: {'probe': 'p1'}"
    assert describe_event(Beat()) is None
