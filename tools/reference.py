"""Writes docs/reference from the code: events, jobs, daemons, settings, errors, the command line."""

import argparse
import inspect
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ringrift.cli.environment import VARIABLES
from ringrift.cli.main import COMMANDS, parser
from ringrift.daemons import DAEMONS
from ringrift.events.catalog import EVENTS, FOR_PEOPLE
from ringrift.jobs import JOBS
from ringrift.kernel import errors
from ringrift.kernel.settings import Settings
from ringrift.kernel.value import Value
from ringrift.work.limits import KINDS

FOLDER = Path(__file__).parent.parent / "docs" / "reference"
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


def events() -> str:
    """Every event, and who reacts to it."""
    readers = {event: [d.name for d in DAEMONS if event in d.on] for event in EVENTS}
    rows = [
        (f"`{e.name()}`", first(e), fields(e), ", ".join(readers[e]) or ("people" if e in FOR_PEOPLE else "views"))
        for e in EVENTS
    ]
    return "# Events\n\n" + table(("event", "what happened", "fields", "read by"), rows)


def jobs() -> str:
    """Every job, and which profiles do it."""
    rows = [
        (f"`{j.kind()}`", first(j), fields(j), ", ".join(p for p, kinds in KINDS.items() if j.kind() in kinds))
        for j in JOBS
    ]
    return "# Jobs\n\n" + table(("job", "what is asked", "fields", "done by profiles"), rows)


def daemons() -> str:
    """Every daemon."""
    rows = []
    for d in DAEMONS:
        shape = "serves" if d.serve else ("on " + ", ".join(e.name() for e in d.on)) if d.on else f"every `{d.every}`"
        about = first(sys.modules[d.run.__module__])
        rows.append(
            (f"`{d.name}`", about, shape, d.role or "—", ", ".join(d.after) or "—", ", ".join(sorted(d.profiles)))
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


PAGES = {"events": events, "jobs": jobs, "daemons": daemons, "settings": settings, "errors": faults, "cli": commands}


def pages() -> dict[str, str]:
    """Every page by the name of its file."""
    return {f"{name}.md": NOTE + "\n" + write() for name, write in PAGES.items()}


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for file, text in pages().items():
        (FOLDER / file).write_text(text)
