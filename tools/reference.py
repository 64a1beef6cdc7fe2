"""Writes docs/reference from the code: events, their old names, jobs, daemons, settings, errors, the command line."""

import argparse
import ast
import importlib
import inspect
import json
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ringrift.cli.environment import VARIABLES
from ringrift.cli.main import COMMANDS, parser
from ringrift.daemons import DAEMONS
from ringrift.events import old_names
from ringrift.events.base import Event
from ringrift.events.catalog import EVENTS, FOR_PEOPLE
from ringrift.events.old_rows import WORDS
from ringrift.events.schema import example
from ringrift.jobs import JOBS
from ringrift.kernel import errors
from ringrift.kernel.settings import Settings
from ringrift.kernel.value import Value
from ringrift.supervision.spec import Daemon
from ringrift.work.limits import KINDS

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import documented  # noqa: E402 - a tool beside this one

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
    found = msgspec.structs.fields(struct)
    return ", ".join(f"`{f.name}`: {type_name(f.type)}{'' if f.required else ' ='}" for f in found)


def paragraph(text: str) -> str:
    """*text* in lines of a width that people can read."""
    return textwrap.fill(" ".join(text.split()), width=120, break_long_words=False, break_on_hyphens=False) + "\n"


def remarks(struct: type) -> dict[str, str]:
    """What stands below the fields of *struct*, by field; a field may be declared by a base."""
    found: dict[str, str] = {}
    for kind in reversed(struct.__mro__):
        if kind.__module__.startswith("ringrift."):
            [body] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
            assert isinstance(body, ast.ClassDef)
            for field, below in zip(body.body, body.body[1:], strict=False):
                match field, below:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                        found[name] = " ".join(text.split())
    return found


def wiring() -> Any:
    """Who says and who hears each event, as the house rules read it from the code."""
    sys.path.insert(0, str(ROOT / "tests"))
    return importlib.import_module("tidy.wiring")


def events() -> str:
    """Every event: what happened, who says it, who hears it, its fields and an example."""
    read = wiring()
    found = read.of_the_product()
    text = "# Events\n\n" + paragraph(f"""
        {len(EVENTS)} things can have happened. Events of scope *log* are durable and reach everybody; those of scope
        *memory* skip the log and reach who listens in the same process. Who says and who hears an event is read from
        the code. What the documents and the earlier system call events is on the page of [old names](old-events.md).
    """)
    for domain in dict.fromkeys(event.name().split(".")[0] for event in EVENTS):
        text += f"\n## {domain}\n"
        for event in EVENTS:
            if event.name().split(".")[0] == domain:
                name = read.full(event)
                text += one_event(event, found.said.get(name, ()), found.heard.get(name, ()))
    return text


def one_event(event: type[Event], said: Iterable[str], heard: Iterable[str]) -> str:
    """The section of one event."""
    listeners = [*sorted(heard), *(["people"] if event in FOR_PEOPLE else [])]
    notes = remarks(event)
    rows = [
        (f"`{field.name}`", type_name(field.type).replace("ringrift.events.", ""), default(field),
         notes.get(field.name, ""))
        for field in msgspec.structs.fields(event)
    ]  # fmt: skip
    about = " ".join((inspect.getdoc(event) or "").split())
    return (
        f"\n### {event.name()}\n\n{about}\n\n"
        f"Scope: {event.SCOPE}. Said by: {', '.join(sorted(said)) or '—'}. Heard by: {', '.join(listeners) or '—'}.\n\n"
        + table(("field", "type", "default", "meaning"), rows)
        + f"\n```json\n{json.dumps(example(event), ensure_ascii=False)}\n```\n"
    )


def default(field: msgspec.structs.FieldInfo) -> str:
    """What a field is if nobody says it."""
    if field.required:
        return "—"
    made = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    return f"`{made!r}`"


def old_events() -> str:
    """Every old name, and what it is here."""
    rows = old_names.names()
    typed = {name: row for name, row in rows.items() if row.event is not None}
    words = [(f"`{ours}`", ", ".join(f"`{word}`" for word in theirs)) for ours, theirs in WORDS.items()]
    retired: dict[str, list[str]] = {}
    for name, row in rows.items():
        if row.event is None:
            retired.setdefault(row.retired, []).append(name)
    return (
        "# Old names of events\n\n"
        + paragraph(f"""
            {len(rows)} names that the documents or the earlier system use: {len(typed)} are events of ours,
            {len(rows) - len(typed)} are retired. A name is the same in upper and lower case, with dots or underscores,
            and with the ending COMPLETE, COMPLETED or COMPLETION. Who listens to an old name hears the event beside it
            where it has the fixed fields. Who says one says that event, if the payload holds every field that has no
            default; otherwise, and for retired and unknown names, `custom.said` carries name and payload as they are.
        """)
        + "\n" + table(("old name", "event", "fixed fields", "field map"), [old_row(*item) for item in typed.items()])
        + "\n## Fields\n\nWords for our fields that are understood under every name.\n\n"
        + table(("field", "also called"), words)
        + "\n## Retired\n\n"
        + table(("why", "names"), [(why, ", ".join(f"`{name}`" for name in names)) for why, names in retired.items()])
    )  # fmt: skip


def old_row(name: str, row: old_names.Row) -> tuple[str, str, str, str]:
    """One old name that is an event of ours."""
    assert row.event is not None
    also = [word for word in old_names.words() if word != name and old_names.canonical(word) == name]
    names = f"`{name}`" + "".join(f", `{word}`" for word in also)
    return names, f"`{row.event.name()}`", pairs(row.fixed, " = "), pairs(row.same, " → ")


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


def daemon_shape(one: Daemon) -> str:
    """When a daemon acts."""
    if one.process:
        return f"program `{' '.join(one.process)}`"
    if one.on:
        return "on " + ", ".join(event.name() for event in one.on)
    return "serves" if one.serve else f"every `{one.every}`"


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
                ", ".join(d.after) or "—",
                ", ".join(sorted(d.profiles)),
            )
        )
    return "# Daemons\n\n" + table(("daemon", "duty", "shape", "role", "starts after", "profiles"), rows)


def branch(value: Any, path: str) -> list[tuple[str, str, str]]:
    """Every setting below *path*: key, type, default."""
    found = []
    for field in msgspec.structs.fields(type(value)):
        current, key = getattr(value, field.name), f"{path}.{field.name}" if path else field.name
        if isinstance(current, Value):
            found += branch(current, key)
        else:
            found.append((f"`{key}`", type_name(field.type), f"`{current!r}`"))
    return found


def settings() -> str:
    """Every setting and every variable."""
    text = "# Settings\n\nIn `ringrift.toml` as tables, on the command line as `--set key=value`.\n\n"
    text += table(("setting", "type", "default"), branch(Settings(), ""))
    rows = [(f"`{name}`", f"`{v.key}`" if v.key else "—", v.note) for name, v in VARIABLES.items()]
    return text + "\n## Environment variables\n\n" + table(("variable", "setting", "what it does"), rows)


def faults() -> str:
    """Every error."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    rows = [
        (f"`{kind.__name__}`", f"`{kind.__base__.__name__}`" if kind.__base__ else "", first(kind)) for kind in kinds
    ]
    return "# Errors\n\n" + table(("error", "is a", "when"), rows)


def commands() -> str:
    """Every command and its options."""
    top = parser()
    chosen = next(action for action in top._actions if isinstance(action, argparse._SubParsersAction))
    text = "# Command line\n"
    for name, about in COMMANDS.items():
        rows = [
            (f"`{', '.join(a.option_strings) or a.dest}`", a.help or "")
            for a in chosen.choices[name]._actions
            if a.dest != "help"
        ]
        text += f"\n## ringrift {name}\n\n{about[0].upper() + about[1:]}.\n\n" + table(("argument", "meaning"), rows)
    return text + "\nExit codes: 0 done, 1 failed, 2 wrong input, 130 or 143 stopped by a signal.\n"


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
    return documented.page(table) if documented.is_possible() else _kept("documented-api")


def _kept(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text().removeprefix(NOTE + "\n")


PAGES["documented-api"] = documented_api


def pages() -> dict[str, str]:
    """Every page by the name of its file."""
    return {f"{name}.md": NOTE + "\n" + write() for name, write in PAGES.items()}


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for file, text in pages().items():
        (FOLDER / file).write_text(text)
