"""Write a package for a game of your own, with a test that conforms and learns."""

import keyword
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from ringrift.cli.command import Command, Context, Output, Parser
from ringrift.kernel.errors import InvalidId, SettingsError
from ringrift.kernel.variant import parse
from ringrift.workload.registry import Registry

_TEMPLATE = files("ringrift.cli") / "template"
_RULE = "write lower-case letters and digits, a letter first, at most 31: it names a module and the variant NAME_2p"
_FILES = {
    "pyproject.toml": "pyproject.toml.txt",
    "README.md": "README.md.txt",
    "{name}.py": "workload.py.txt",
    "test_{name}.py": "test.py.txt",
}


def _arguments(parser: Parser) -> None:
    parser.add_argument("name", help="the game's name, e.g. nim: of its package, its workload and its variant nim_2p")
    parser.add_argument("--folder", metavar="DIR", help="a folder that does not exist yet (default: ./NAME)")


def _require_free(name: str, context: Context) -> None:
    """Raise InvalidId unless *name* can name a new module, workload and variant."""
    try:
        parse(f"{name}_2p")
    except InvalidId as error:
        raise InvalidId("name", name, _RULE) from error
    module = find_spec(name)
    if keyword.iskeyword(name) or (module is not None and module.origin is not None):  # a mere folder has no origin
        raise InvalidId("name", name, "there is a Python module of that name; take another")
    if name in Registry.load(context.settings.work.executables).makers:
        raise InvalidId("name", name, "there is a workload of that name; take another")


def _prepare(context: Context) -> Output:
    """Write the files.  Raises InvalidId, SettingsError; then nothing is written."""
    name = context.options.name
    _require_free(name, context)
    folder = Path(context.options.folder or name)
    texts = {file.format(name=name): (_TEMPLATE / source).read_text("utf-8") for file, source in _FILES.items()}
    try:
        folder.mkdir(parents=True)
        for file, text in texts.items():
            filled = text.replace("NAME", name).replace("CLASS", f"{name.capitalize()}Game")  # no name that it imports
            (folder / file).write_text(filled, encoding="utf-8")
    except FileExistsError as error:
        raise SettingsError("--folder", str(folder), "it exists already; name a new one") from error
    except OSError as error:
        raise SettingsError("--folder", str(folder), str(error.strerror)) from error
    steps = (
        f"pip install -e {folder}",
        f"python -m ringrift.workload.conformance {name} {name}_2p",
        f"python -m pytest {folder}",
        f"ringrift run --minutes 1 --variants {name}_2p",
        f"ringrift play {name}_2p",
    )
    text = "\n".join(
        [f"{folder}: a game for RingRift; change {name}.py to make it yours.  Next:", *(f"  {s}" for s in steps)]
    )
    return Output(value={"folder": str(folder), "files": sorted(texts), "next": steps}, text=text)


COMMAND = Command(arguments=_arguments, prepare=_prepare)
