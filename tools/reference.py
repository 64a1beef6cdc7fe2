"""Write docs/reference from the code: events, their old names, jobs, daemons, settings, errors, the command line."""

import argparse
import ast
import importlib
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ringrift.cli.main import _COMMANDS, build_parser
from ringrift.cli.setting_notes import SettingNote, param_notes, setting_notes
from ringrift.daemons import DAEMONS
from ringrift.environment import VARIABLES
from ringrift.events.base import Event
from ringrift.events.catalog import EVENTS, FOR_PEOPLE
from ringrift.events.schema import example
from ringrift.jobs import JOBS
from ringrift.kernel import errors, wire_errors
from ringrift.kernel.exit_codes import ExitCode
from ringrift.supervision.spec import Daemon
from ringrift.work.limits import KINDS
from ringrift_compat.events import old_names
from ringrift_compat.events.old_rows import WORDS
from ringrift_reversi.workload import Reversi

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import documented  # noqa: E402 - a tool beside this one
import error_examples  # noqa: E402 - likewise

FOLDER = ROOT / "docs" / "reference"
NOTE = "<!-- Generated from the code by `make docs`: change the code, not this page. -->\n"


def cell(value: object) -> str:
    """*value* as it may stand in a table."""
    return str(value).replace("|", "\\|").replace("\n", " ")


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell(one) for one in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def first(thing: Any) -> str:
    """The first line of a docstring."""
    return (inspect.getdoc(thing) or "").split("\n")[0]


def type_name(kind: Any) -> str:
    """A type as people write it."""
    return (
        kind.__name__ if isinstance(kind, type) and not hasattr(kind, "__args__") else str(kind).replace("typing.", "")
    )


def fields(struct: type[msgspec.Struct]) -> str:
    """The fields of a struct, each with its type, ``=`` where it has a default."""
    rows = msgspec.structs.fields(struct)
    return ", ".join(f"`{f.name}`: {type_name(f.type)}{'' if f.required else ' ='}" for f in rows)


def paragraph(text: str) -> str:
    """*text* in lines of a width that people can read."""
    return textwrap.fill(" ".join(text.split()), width=120, break_long_words=False, break_on_hyphens=False) + "\n"


def wiring() -> Any:
    """Which modules publish and consume each event, as the house rules read it from the code."""
    sys.path.insert(0, str(ROOT / "tests"))
    return importlib.import_module("tidy.wiring")


def events() -> str:
    """Every event: what happened, who publishes and consumes it, its fields and an example."""
    read = wiring()
    product = read.of_the_product()
    text = "# Events\n\n" + paragraph(f"""
        There are {len(EVENTS)} events. Events of scope *log* are durable and reach every reader; those of scope
        *memory*
        skip the log and reach the subscribers of the same process. Which modules publish and consume an event is read
        from the code. The names that the earlier system used are on the page of [old names](old-events.md).
    """)
    for domain in dict.fromkeys(event.name().split(".")[0] for event in EVENTS):
        text += f"\n## {domain}\n"
        for event in EVENTS:
            if event.name().split(".")[0] == domain:
                name = read.full(event)
                text += one_event(event, product.published.get(name, ()), product.consumed.get(name, ()))
    return text


def one_event(event: type[Event], publishers: Iterable[str], consumers: Iterable[str]) -> str:
    """The section of one event."""
    consumers = [*sorted(consumers), *(["people"] if event in FOR_PEOPLE else [])]
    notes = remarks(event)
    rows = []
    for field in msgspec.structs.fields(event):
        kind = type_name(field.type).replace("ringrift.events.", "")
        rows.append((f"`{field.name}`", kind, default(field), notes.get(field.name, "")))
    published, consumed = ", ".join(sorted(publishers)) or "—", ", ".join(consumers) or "—"
    about = " ".join((inspect.getdoc(event) or "").split())
    return (
        f"\n### {event.name()}\n\n{about}\n\n"
        f"Scope: {event.SCOPE}. Published by: {published}. Consumed by: {consumed}.\n\n"
        + table(("field", "type", "default", "meaning"), rows)
        + f"\n```json\n{json.dumps(example(event), ensure_ascii=False)}\n```\n"
    )


def remarks(struct: type) -> dict[str, str]:
    """The docstring below each field of *struct*, or the ``#:`` comment beside it; a base may declare the field."""
    texts: dict[str, str] = {}
    for kind in reversed(struct.__mro__):
        if kind.__module__.startswith("ringrift."):
            source = textwrap.dedent(inspect.getsource(kind))
            [body] = ast.parse(source).body
            assert isinstance(body, ast.ClassDef)
            texts |= re.findall(r"^    (\w+)(?::| =) .*  #: (.*)$", source, re.MULTILINE)
            for field, below in zip(body.body, body.body[1:], strict=False):
                match field, below:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                        texts[name] = " ".join(text.split())
    return texts


def default(field: msgspec.structs.FieldInfo) -> str:
    """The default of *field*, as it may stand in a table."""
    if field.required:
        return "—"
    made = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    return f"`{made!r}`"


def old_events() -> str:
    """Every old name, and what it is here."""
    rows = old_names.names()
    typed = {name: row for name, row in rows.items() if row.event is not None}
    late, retired = reasons(rows, "not_yet"), reasons(rows, "retired")
    words = [(f"`{ours}`", ", ".join(f"`{word}`" for word in theirs)) for ours, theirs in WORDS.items()]
    return (
        "# Old names of events\n\n"
        + paragraph(f"""
            The documents and the earlier system use {len(rows)} names: {len(typed)} are true, which means that one of
            our events means the same, {sum(map(len, late.values()))} are not there yet, and
            {sum(map(len, retired.values()))} are retired. Upper and lower case, dots and underscores, and the endings
            COMPLETE, COMPLETED and COMPLETION make no difference. A subscriber to a true name gets the event beside it
            where that has the fixed fields (one of several values that are divided by a bar) and meets the condition. A
            publish under a true name becomes that event if the payload holds every field without a default; otherwise,
            and under every other name, `custom.published` carries name and payload, and subscribers to that name get
            it. A subscriber to a name that is not true gets nothing else.
        """)
        + "\n"
        + table(("old name", "event", "fixed fields and condition", "field map"), [old_row(*i) for i in typed.items()])
        + "\n## Fields\n\nWords for our fields that are understood under every name.\n\n"
        + table(("field", "also called"), words)
        + "\n## Not yet\n\nNo event of ours has these names until what is named beside them is built.\n\n"
        + table(("what brings it", "names"), [(what, listed(names)) for what, names in late.items()])
        + "\n## Retired\n\nThe subject of these names never comes here.\n\n"
        + table(("why", "names"), [(why, listed(names)) for why, names in retired.items()])
    )


def reasons(rows: Mapping[str, old_names.Row], field: str) -> dict[str, list[str]]:
    """The names that have a reason of this kind, by the reason."""
    names: dict[str, list[str]] = {}
    for name, row in rows.items():
        if reason := getattr(row, field):
            names.setdefault(reason, []).append(name)
    return names


def listed(names: Iterable[str]) -> str:
    """Names in one cell."""
    return ", ".join(f"`{name}`" for name in names)


def old_row(name: str, row: old_names.Row) -> tuple[str, str, str, str]:
    """One old name that is an event of ours."""
    assert row.event is not None
    also = [word for word in old_names.words() if word != name and old_names.canonical(word) == name]
    names = f"`{name}`" + "".join(f", `{word}`" for word in also)
    fixed = {key: " | ".join(map(str, v)) if isinstance(v, tuple) else v for key, v in row.fixed.items()}
    conditions = "; ".join(part for part in (pairs(fixed, " = ") if fixed else "", row.condition) if part) or "—"
    return names, listed(event.name() for event in row.events), conditions, pairs(row.same, " → ")


def pairs(mapping: Mapping[str, object], sign: str) -> str:
    """A mapping in one cell."""
    return ", ".join(f"`{key}`{sign}`{value}`" for key, value in mapping.items()) or "—"


def jobs() -> str:
    """Every job, and which profiles do it."""
    rows = [
        (f"`{j.kind()}`", first(j), fields(j), ", ".join(p for p, kinds in KINDS.items() if j.kind() in kinds))
        for j in JOBS
    ]
    return "# Jobs\n\n" + table(("job", "what is asked", "fields", "done by profiles"), rows)


def daemon_shape(daemon: Daemon) -> str:
    """When a daemon acts."""
    if daemon.process:
        return f"program `{' '.join(daemon.process)}`"
    if daemon.on:
        return "on " + ", ".join(event.name() for event in daemon.on)
    return "serves" if daemon.serve else f"every `{daemon.every}`"


def daemons() -> str:
    """Every daemon."""
    rows = []
    for d in DAEMONS:
        about = first(sys.modules[f"ringrift.daemons.{d.name}"])
        rows.append(
            (
                f"`{d.name}`",
                about,
                daemon_shape(d),
                d.role or "—",
                ", ".join(d.follows) or "—",
                ", ".join(sorted(d.profiles)),
            )
        )
    return "# Daemons\n\n" + table(("daemon", "duty", "shape", "role", "starts after", "profiles"), rows)


def notes(rows: Iterable[SettingNote]) -> str:
    """A table of settings."""
    head = ("setting", "type", "unit", "range", "default", "meaning", "when to change it")
    cells = [
        (f"`{n.key}`", n.kind, n.unit, n.range, f"`{json.dumps(n.default, default=list)}`", n.meaning, n.change)
        for n in rows
    ]
    return table(head, cells)


def settings() -> str:
    """Every setting, every parameter of the bundled game, and every variable."""
    text = (
        "# Settings\n\n"
        + paragraph("""
        In `ringrift.toml` as tables, on the command line as `--set key=value`. `ringrift config show --effective
        --origin` prints what a run would use and where each value comes from; `ringrift config explain KEY` prints a
        row of this page. How to use them: [settings](../howto/settings.md).
    """)
        + "\n"
    )
    text += notes(setting_notes().values())
    text += (
        "\n## Parameters of the bundled game\n\n"
        + paragraph("""
        The game `reversi` declares these; others are refused. `match_sims` and `steps` have no default of their own.
    """)
        + "\n"
    )
    text += notes(param_notes(Reversi()).values())
    rows = [(f"`{name}`", f"`{v.key}`" if v.key else "—", v.note) for name, v in VARIABLES.items()]
    return text + "\n## Environment variables\n\n" + table(("variable", "setting", "what it does"), rows)


def faults() -> str:
    """Every error."""
    classes = (vars(errors) | vars(wire_errors)).values()
    kinds = [kind for kind in classes if isinstance(kind, type) and issubclass(kind, Exception)]
    rows = [
        (f"`{kind.__name__}`", f"`{kind.__base__.__name__}`" if kind.__base__ else "", first(kind)) for kind in kinds
    ]
    examples = [(f"`{type(error).__name__}`", f"`{error}`", *rest) for error, *rest in error_examples.EXAMPLES]
    return (
        "# Errors\n\n"
        + table(("error", "is a", "when"), rows)
        + "\n## Typical messages\n\n"
        + table(("error", "message", "how it comes about", "what to do"), examples)
    )


def commands() -> str:
    """Every command and its options."""
    top = build_parser()
    chosen = next(action for action in top._actions if isinstance(action, argparse._SubParsersAction))
    text = "# Command line\n"
    for name, about in _COMMANDS.items():
        rows = [
            (f"`{', '.join(a.option_strings) or a.dest}`", a.help or "")
            for a in chosen.choices[name]._actions
            if a.dest != "help"
        ]
        text += f"\n## ringrift {name}\n\n{about[0].upper() + about[1:]}.\n\n" + table(("argument", "meaning"), rows)
    meanings = remarks(ExitCode)
    rows = [(f"{code:d}", meanings[code.name]) for code in ExitCode]
    return text + "\n## Exit codes\n\n" + table(("code", "meaning"), rows)


PAGES = {
    "events": events,
    "old-events": old_events,
    "jobs": jobs,
    "daemons": daemons,
    "settings": settings,
    "errors": faults,
    "cli": commands,
}


def documented_api() -> str:
    """What the documents name; where they are not at hand, what stands there already."""
    return documented.page(table) if documented.is_possible() else _present("documented-api")


def _present(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text().removeprefix(NOTE + "\n")


PAGES["documented-api"] = documented_api


def pages() -> dict[str, str]:
    """Every page by the name of its file."""
    return {f"{name}.md": NOTE + "\n" + write() for name, write in PAGES.items()}


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for file, text in pages().items():
        (FOLDER / file).write_text(text)
