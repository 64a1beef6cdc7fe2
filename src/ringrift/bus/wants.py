"""Wants: which events somebody asked for, by class, name, set or predicate, made fast to look up."""

from collections.abc import Callable, Collection, Iterable
from typing import Any

from ringrift.events import catalog, old_names
from ringrift.events.base import Envelope, Event
from ringrift.events.custom import Said
from ringrift.kernel.errors import InputError
from ringrift.kernel.ids import check_name
from ringrift.kernel.value import Value

Predicate = Callable[[Event, Envelope], bool]
One = type[Event] | str
Asked = One | Collection[One] | Predicate | None


class Wants(Value):
    """Names that may be wanted, None for all; *check* has the last word where a name alone does not tell."""

    names: frozenset[str] | None = None
    check: Predicate | None = None
    words: frozenset[str] = frozenset()
    """Names under which others say it, where it was asked for by name."""

    def has(self, event: Event, envelope: Envelope) -> bool:
        """Whether this event is wanted."""
        if self.names is not None and envelope.name not in self.names:
            return False
        return self.check is None or self.check(event, envelope)

    def meets(self, other: "Wants") -> bool:
        """Whether there may be an event that both want."""
        if self.names is None or other.names is None:
            return True
        said = Said.name()
        both = self.names & other.names
        if both - {said}:
            return True
        return said in both and (not self.words or not other.words or bool(self.words & other.words))


def wants(asked: Asked) -> Wants:
    """What *asked* means: a class (also a base of several), any name, several of both, a predicate, None for all.

    Raises InputError for what is none of them.
    """
    if asked is None:
        return Wants()
    if isinstance(asked, type | str):
        return _any_of((asked,))
    if isinstance(asked, Collection):
        return _any_of(asked)
    if callable(asked):
        return Wants(check=asked)
    raise InputError(f"cannot subscribe to {asked!r:.80}: give an event class, a name, a set of them or a predicate")


def _any_of(asked: Iterable[Any]) -> Wants:
    plain: set[str] = set()
    checks: dict[str, list[Callable[[Event], bool]]] = {}
    for one in asked:
        if isinstance(one, type) and issubclass(one, Event):
            found = {event.name() for event in catalog.EVENTS if issubclass(event, one)}
            if not found:
                raise InputError(f"{one.__name__} is not in the catalog: nobody can say it")
            plain |= found
        elif isinstance(one, str):
            for name, fits in _by_name(check_name("event", one)):
                checks.setdefault(name, []).append(fits)
        else:
            raise InputError(f"{one!r:.80} is neither an event class nor a name")
    checks = {name: found for name, found in checks.items() if name not in plain}
    names = frozenset(plain | set(checks))
    if not checks:
        return Wants(names=names)

    def check(event: Event, envelope: Envelope) -> bool:
        return envelope.name in plain or any(fits(event) for fits in checks[envelope.name])

    plainly = Said.name() in plain  # whoever asks for the class hears what is said under any name
    words = frozenset() if plainly else frozenset(old_names.canonical(one) for one in asked if isinstance(one, str))
    return Wants(names=names, check=check, words=words)


def _by_name(name: str) -> Iterable[tuple[str, Callable[[Event], bool]]]:
    """Under which of our names events of *name* come, and how they are told from others there.

    What was said under a name with too little in it to count is carried as it was said, and heard under that name too.
    """
    row = old_names.resolve(name)
    if row is not None and row.event is not None:
        yield row.event.name(), lambda event: old_names.matches(row, event)
    spoken = old_names.canonical(name)
    yield Said.name(), lambda event: isinstance(event, Said) and event.event == spoken
