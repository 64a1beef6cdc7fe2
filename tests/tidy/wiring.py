"""Who says and who hears each event, read from the code.

A call of an event's class outside the vocabulary says it.  Hearing is: a daemon's ``on``, a case of the machine, a
``router.subscribe`` with the class or a name.  Who subscribes to everything is a view, and hears nothing in particular.
The simulator is no part of the loop and counts for neither.
"""

import ast
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from tidy.source import EVENTS, Source, calls, dotted, product

SAYS_FOR_OTHERS = EVENTS + "old_names.py"
SIMULATOR = "src/ringrift/sim/"
MACHINE = "src/ringrift/pipeline/machine.py"
CLI = "src/ringrift/cli/"
LIVE = CLI + "live.py"
PEOPLE_SHARE_MAX = 0.2
Names = dict[str, set[str]]


@dataclass
class Wiring:
    """By an event's class, as ``ringrift.events.model.Promoted``: the modules that say, hear and show it."""

    said: Names = field(default_factory=dict)
    heard: Names = field(default_factory=dict)
    shown: Names = field(default_factory=dict)
    reacted: set[str] = field(default_factory=set)
    """What some daemon reacts to."""
    cases: set[str] = field(default_factory=set)
    """What the machine has a case for."""
    strangers: list[str] = field(default_factory=list)
    """Subscriptions to what is in no catalog, with their places."""


def derive(
    sources: Iterable[Source], events: Collection[str], duties: Iterable[tuple[str, Collection[str]]] = ()
) -> Wiring:
    """The wiring of *events* in *sources*; *duties* are daemons with what they react to."""
    found = Wiring()
    for source in sources:
        if source.below(SIMULATOR) or (source.below(EVENTS) and source.path != SAYS_FOR_OTHERS):
            continue
        module = _module(source)
        _note(found.said, (name for name, _ in calls(source) if name in events), module)
        if source.path == MACHINE:
            found.cases = {name for name in cases(source, source.tree) if name in events}
            _note(found.heard, found.cases, module)
        if source.below(CLI):
            _note(found.shown, (name for name in shown(source) if name in events), module)
        for name, place in subscribed(source):
            if name in events:
                _note(found.heard, [name], module)
            else:
                found.strangers.append(f"{source.path}:{place}: {name} is in no catalog")
    for daemon, names in duties:
        found.reacted |= set(names)
        _note(found.heard, (name for name in names if name in events), f"daemon {daemon}")
        found.strangers += [f"daemon {daemon}: {name} is in no catalog" for name in names if name not in events]
    return found


def problems(wiring: Wiring, events: Collection[str], people: Collection[str]) -> list[str]:
    """What is wrong with *wiring*; *people* are the events that only people react to."""
    wrong = [f"{event}: nobody says it" for event in events if event not in wiring.said]
    wrong += [f"{event}: nobody hears it" for event in events if event not in wiring.heard and event not in people]
    wrong += [f"{event}: is for people, but no command shows it" for event in people if event not in wiring.shown]
    wrong += [f"{event}: the machine has a case for it, but no daemon hands it over"
              for event in sorted(wiring.cases - wiring.reacted)]  # fmt: skip
    if len(people) > PEOPLE_SHARE_MAX * len(events):
        wrong.append(f"{len(people)} of {len(events)} events are for people only, more than a fifth")
    return [*wrong, *wiring.strangers]


def subscribed(source: Source) -> Iterator[tuple[str, int]]:
    """Every event class or name that is given to ``router.subscribe``, with its line."""
    for _, call in calls(source):
        match call.func:
            case ast.Attribute(attr="subscribe", value=asked) if ast.unparse(asked).lower().endswith("router"):
                for one in call.args[:1]:
                    for part in getattr(one, "elts", [one]):
                        yield from _asked(source, part)


def _asked(source: Source, node: ast.expr) -> Iterator[tuple[str, int]]:
    name = dotted(source, node)
    word = name.rpartition(".")[2]
    is_class = name.startswith("ringrift.events.") and word[:1].isupper() and not word.isupper()
    if is_class and not name.startswith("ringrift.events.base."):
        yield name, node.lineno
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield _named(node.value), node.lineno


def _named(name: str) -> str:
    from ringrift.events.old_names import resolve

    row = resolve(name)
    return name if row is None or row.event is None else full(row.event)


def cases(source: Source, tree: ast.AST) -> Iterator[str]:
    """Every class that a case below *tree* matches."""
    return (dotted(source, node.cls) for node in ast.walk(tree) if isinstance(node, ast.MatchClass))


def shown(source: Source) -> Iterator[str]:
    """Every class that a command looks for; in the live view only the cases of ``told``, for that is what it shows."""
    if source.path == LIVE:
        told = [node for node in source.tree.body if isinstance(node, ast.FunctionDef) and node.name == "told"]
        yield from (name for node in told for name in cases(source, node))
    else:
        said = {id(call.func) for _, call in calls(source)}
        nodes = (node for node in ast.walk(source.tree) if isinstance(node, ast.Attribute | ast.Name))
        yield from (dotted(source, node) for node in nodes if id(node) not in said)


def full(event: type) -> str:
    """The name of a class as the code of others spells it."""
    return f"{event.__module__}.{event.__name__}"


def of_the_product() -> Wiring:
    """The wiring of the catalog in the product."""
    from ringrift.daemons import DAEMONS
    from ringrift.events.catalog import EVENTS as CATALOG

    duties = [(daemon.name, [full(event) for event in daemon.on]) for daemon in DAEMONS]
    return derive(product(), [full(event) for event in CATALOG], duties)


def _module(source: Source) -> str:
    return source.path.removeprefix("src/").removeprefix("ringrift/").removesuffix(".py").replace("/", ".")


def _note(into: Names, names: Iterable[str], who: str) -> None:
    for name in names:
        into.setdefault(name, set()).add(who)
