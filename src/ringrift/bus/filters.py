"""Event filters: select events by class, name, set of both or predicate, with a fast lookup by name."""

from collections.abc import Callable, Collection, Iterable
from typing import Any

from ringrift.events import catalog
from ringrift.events.base import Envelope, Event
from ringrift.events.custom import Published
from ringrift.kernel.errors import InputError
from ringrift.kernel.ids import check_name
from ringrift.kernel.value import Value

_Predicate = Callable[[Event, Envelope], bool]
_Selector = type[Event] | str
_CUSTOM = Published.name()


class EventFilter(Value):
    """Selects events by *names* (None: every name) and, where the name does not decide, by *check*."""

    names: frozenset[str] | None = None
    check: _Predicate | None = None
    custom_names: frozenset[str] = frozenset()  # if the filter selects custom events by their own names: these names

    def matches(self, event: Event, envelope: Envelope) -> bool:
        if self.names is not None and envelope.name not in self.names:
            return False
        return self.check is None or self.check(event, envelope)

    def overlaps(self, other: "EventFilter") -> bool:
        """Whether an event may exist that both filters select."""
        if self.names is None or other.names is None:
            return True
        common = self.names & other.names
        if common - {_CUSTOM}:
            return True
        both_named = self.custom_names and other.custom_names
        return _CUSTOM in common and (not both_named or bool(self.custom_names & other.custom_names))


FilterSpec = _Selector | Collection[_Selector] | _Predicate | EventFilter | None


def make_filter(spec: FilterSpec) -> EventFilter:
    """Make the filter that *spec* describes: an event class (also a base class), a name, a collection of both, a
    predicate, a filter, or None for every event.

    A name that is not in the catalog selects the custom events published under it.  Raises InputError.
    """
    if spec is None:
        return EventFilter()
    if isinstance(spec, EventFilter):
        return spec
    if isinstance(spec, type | str | Collection):
        return _select((spec,) if isinstance(spec, type | str) else spec)
    if callable(spec):
        return EventFilter(check=spec)
    raise InputError(f"cannot subscribe to {spec!r:.80}: give an event class, a name, a set of them or a predicate")


def _select(selectors: Iterable[Any]) -> EventFilter:
    names, custom_names = set[str](), set[str]()
    for selector in selectors:
        if isinstance(selector, type) and issubclass(selector, Event):
            own = selector in catalog.EVENTS  # then no other package needs to be loaded for it
            classes = [selector] if own else [event for event in catalog.all_events() if issubclass(event, selector)]
            if not classes:
                raise InputError(f"{selector.__name__} is not in the event catalog, so it is never published")
            names.update(event.name() for event in classes)
        elif isinstance(selector, str):
            (names if catalog.has(check_name("event", selector)) else custom_names).add(selector)
        else:
            raise InputError(f"{selector!r:.80} is neither an event class nor an event name")
    if not custom_names or _CUSTOM in names:
        return EventFilter(names=frozenset(names | ({_CUSTOM} if custom_names else set())))

    def check(event: Event, envelope: Envelope) -> bool:
        return not isinstance(event, Published) or event.event in custom_names

    return EventFilter(names=frozenset(names | {_CUSTOM}), check=check, custom_names=frozenset(custom_names))
