"""Which modules publish and consume each event, read from the code.

A call of an event's class outside the vocabulary publishes it.  A daemon's ``on``, a case of the machine and a
``router.subscribe`` with the class or its name consume it.  A subscription to everything is a view and consumes nothing
in particular.  The simulator is no part of the loop and counts for neither.
"""

import ast
import tomllib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tidy.source import EVENTS, Source, calls, dotted, product

SIMULATOR = "src/ringrift/sim/"
MACHINE = "src/ringrift/pipeline/machine.py"
CLI = "src/ringrift/cli/"
LIVE = CLI + "live.py"
SENTENCES = Path(__file__).parents[2] / CLI / "sentences.toml"
PEOPLE_SHARE_MAX = 0.2
Names = dict[str, set[str]]


@dataclass
class Wiring:
    """By an event's class, as ``ringrift.events.model.Promoted``: the modules that publish, consume and display it."""

    published: Names = field(default_factory=dict)
    consumed: Names = field(default_factory=dict)
    displayed: Names = field(default_factory=dict)
    reacted: set[str] = field(default_factory=set)
    """What some daemon reacts to."""
    cases: set[str] = field(default_factory=set)
    """What the machine has a case for."""
    unknown: list[str] = field(default_factory=list)
    """Subscriptions to what is in no catalog, with their places."""


def derive(
    sources: Iterable[Source], events: Collection[str], duties: Iterable[tuple[str, Collection[str]]] = ()
) -> Wiring:
    """The wiring of *events* in *sources*; *duties* are daemons with what they react to."""
    wiring = Wiring()
    for source in sources:
        if source.below(SIMULATOR, EVENTS):
            continue
        module = _module(source)
        _note(wiring.published, (name for name, _ in calls(source) if name in events), module)
        if source.path == MACHINE:
            wiring.cases = {name for name in cases(source, source.tree) if name in events}
            _note(wiring.consumed, wiring.cases, module)
        if source.below(CLI):
            _note(wiring.displayed, (name for name in displayed(source) if name in events), module)
        for name, line in subscribed(source):
            if name in events:
                _note(wiring.consumed, [name], module)
            else:
                wiring.unknown.append(f"{source.path}:{line}: {name} is in no catalog")
    for daemon, names in duties:
        wiring.reacted |= set(names)
        _note(wiring.consumed, (name for name in names if name in events), f"daemon {daemon}")
        wiring.unknown += [f"daemon {daemon}: {name} is in no catalog" for name in names if name not in events]
    return wiring


def problems(wiring: Wiring, events: Collection[str], people: Collection[str]) -> list[str]:
    """What is not right with *wiring*; *people* are the events that only people react to."""
    unfed = sorted(wiring.cases - wiring.reacted)
    consumed = {*wiring.consumed, *people}
    lines = [f"{event}: no module publishes it" for event in events if event not in wiring.published]
    lines += [f"{event}: no module consumes it" for event in events if event not in consumed]
    lines += [f"{event}: is for people, but no command shows it" for event in people if event not in wiring.displayed]
    lines += [f"{event}: the machine has a case for it, but no daemon hands it over" for event in unfed]
    if len(people) > PEOPLE_SHARE_MAX * len(events):
        lines.append(f"{len(people)} of {len(events)} events are for people only, more than a fifth")
    return [*lines, *wiring.unknown]


def subscribed(source: Source) -> Iterator[tuple[str, int]]:
    """Every event class or name that is given to ``router.subscribe``, with its line."""
    for _, call in calls(source):
        match call.func:
            case ast.Attribute(attr="subscribe", value=owner) if ast.unparse(owner).lower().endswith("router"):
                for argument in call.args[:1]:
                    spec = _assigned(source, argument)
                    for part in getattr(spec, "elts", [spec]):
                        yield from _filter(source, part)


def _assigned(source: Source, node: ast.expr) -> ast.expr:
    """The value of *node*, if it is a variable that the file assigns once; else *node* itself."""
    if not isinstance(node, ast.Name):
        return node
    values = [
        other.value
        for other in source.nodes
        if isinstance(other, ast.Assign) and [ast.unparse(target) for target in other.targets] == [node.id]
    ]
    return values[0] if len(values) == 1 else node


def _filter(source: Source, node: ast.expr) -> Iterator[tuple[str, int]]:
    name = dotted(source, node)
    word = name.rpartition(".")[2]
    is_class = name.startswith("ringrift.events.") and word[:1].isupper() and not word.isupper()
    if is_class and not name.startswith("ringrift.events.base."):
        yield name, node.lineno
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield _class_of(node.value), node.lineno


def _class_of(name: str) -> str:
    from ringrift.events.catalog import EVENTS as CATALOG

    return next((full(event) for event in CATALOG if event.name() == name), name)


def cases(source: Source, tree: ast.AST) -> Iterator[str]:
    """Every class that a case below *tree* matches."""
    return (dotted(source, node.cls) for node in ast.walk(tree) if isinstance(node, ast.MatchClass))


def displayed(source: Source) -> Iterator[str]:
    """Every class that a command looks for; in the live view only what it has a sentence for."""
    if source.path == LIVE:
        for node in source.tree.body:
            if isinstance(node, ast.FunctionDef) and node.name == "describe_event":
                yield from cases(source, node)
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_SENTENCES":
                yield from map(_class_of, tomllib.loads(SENTENCES.read_text()))
    else:
        callees = {id(call.func) for _, call in calls(source)}
        nodes = (node for node in ast.walk(source.tree) if isinstance(node, ast.Attribute | ast.Name))
        yield from (dotted(source, node) for node in nodes if id(node) not in callees)


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
