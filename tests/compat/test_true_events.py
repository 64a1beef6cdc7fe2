"""A true name is heard when its cause happens, and at no other time; every other name is never one of our events."""

import pytest

from compat.scene import is_true, names_at
from compat.true_names import CAUSES, NAMES, TRUE, cause_of, neighbour_of
from ringrift.events import catalog
from ringrift.events.custom import Published
from ringrift.events.schema import example
from ringrift_compat.events.old_names import _matches, make_filter, names

ALL = tuple(names())
UNTRUE = [name for name in ALL if not is_true(name)]


def test_every_true_name_has_a_cause() -> None:
    """No name is true without a test that makes it happen, and every cause is in the table."""
    assert {name for name in ALL if is_true(name)} == TRUE
    assert set(CAUSES) == set(NAMES)


@pytest.mark.parametrize("cause", sorted(CAUSES))
def test_a_cause_has_these_names_and_no_others(cause: str) -> None:
    """Subscribers to all true names hear exactly those that the table has."""
    assert names_at(CAUSES[cause], TRUE) == NAMES[cause]


@pytest.mark.parametrize("name", sorted(TRUE))
def test_a_true_name_is_heard_at_its_cause_and_not_at_its_neighbour(name: str) -> None:
    """The real cause is heard under the name; what is most like it is not."""
    assert name in names_at(CAUSES[cause_of(name)], TRUE)
    assert name not in names_at(CAUSES[neighbour_of(name)], TRUE)


@pytest.mark.parametrize("name", UNTRUE)
def test_a_name_that_is_not_true_is_no_event_of_ours(name: str) -> None:
    """It has what brings it or why it never comes, matches no event of ours, and selects what a user publishes."""
    row, selected = names()[name], make_filter(name)
    examples = [event(**{k: v for k, v in example(event).items() if k != "type"}) for event in catalog.EVENTS]
    envelope = None

    assert bool(row.not_yet) != bool(row.retired)
    assert not any(_matches(row, event) for event in examples)
    assert selected.names == {Published.name()}
    assert selected.check is not None
    assert selected.check(Published(event=name), envelope)  # type: ignore[arg-type]  # it looks at the event alone
    assert not any(selected.check(event, envelope) for event in examples)  # type: ignore[arg-type]  # it looks at the event alone
