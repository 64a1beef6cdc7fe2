"""The errors are the tree that their docstring draws, no more and no less."""

import inspect
import re
from pathlib import Path

from ringrift.kernel import errors, wire_errors
from ringrift.kernel.errors import Discard, InvalidId, Retry, RingriftError, UnknownName, printable

LEAF = re.compile(r"[A-Z][A-Za-z]+")


def drawn() -> dict[str, str]:
    """Each class that the docstring draws, and the one it hangs on."""
    hangs_on = {}
    for line in (errors.__doc__ or "").splitlines():
        if line.startswith(("├── ", "└── ")):
            branch, _, rest = line[4:].partition(" ")
            hangs_on[branch] = "RingriftError"
        elif line.startswith("│   "):
            rest = line[4:]  # more leaves of the same branch
        else:
            continue
        for leaf in rest.split("·"):  # "One > Another": a kind of a kind
            names = [word.strip() for word in leaf.split(">")]
            bases = [branch, *names[:-1]]
            hangs_on |= {name: base for name, base in zip(names, bases, strict=True) if LEAF.fullmatch(name)}
    return hangs_on


def written() -> dict[str, type[Exception]]:
    """Every class of the two modules."""
    modules = (errors, wire_errors)
    classes = [pair for module in modules for pair in inspect.getmembers(module, inspect.isclass)]
    return {name: made for name, made in classes if made.__module__ in {module.__name__ for module in modules}}


def test_the_tree_is_drawn_completely() -> None:
    """Every error of ours is in the picture, and everything in the picture is an error of ours."""
    ours = {name for name, made in written().items() if issubclass(made, RingriftError)} - {"RingriftError"}

    assert set(drawn()) == ours


def test_no_other_module_of_the_core_declares_an_error() -> None:
    """The tree is complete: an error of the core stands in one of these two files."""
    subclass = re.compile(rf"^class (\w+)\((?:{'|'.join(written())})\)", re.MULTILINE)
    source = Path(errors.__file__).parents[1]

    elsewhere = {path.name: subclass.findall(path.read_text()) for path in source.rglob("*.py")}
    elsewhere |= {"errors.py": [], "wire_errors.py": []}
    assert {name: classes for name, classes in elsewhere.items() if classes} == {}


def test_each_error_has_its_documented_base() -> None:
    """The class that an error is derived from is the branch it is drawn on."""
    bases = {name: [base.__name__ for base in made.__bases__] for name, made in written().items()}

    assert {name: bases[name] for name in drawn()} == {name: [parent] for name, parent in drawn().items()}


def test_only_branches_end_in_error() -> None:
    """A leaf names the condition; a name that ends in Error has leaves, or is the one for settings."""
    branches = {parent for parent in drawn().values()}

    assert {name for name in drawn() if name.endswith("Error")} - branches == {"SettingsError"}


def test_signals_stand_beside_the_tree() -> None:
    """Retry and Discard are no errors, and the only other classes there are."""
    beside = {made for made in written().values() if not issubclass(made, RingriftError)}

    assert beside == {Retry, Discard}
    assert "``Retry`` and ``Discard``" in (errors.__doc__ or "")


def test_valid_names_are_listed_in_order_and_bounded() -> None:
    """An unknown name comes with the valid ones, sorted, up to two dozen."""
    many = UnknownName("event", "x", (f"name{number:02}" for number in reversed(range(40))))

    assert many.names[:2] == ("name00", "name01")
    assert "name23" in str(many)
    assert "name24" not in str(many)


def test_text_from_outside_is_made_printable() -> None:
    """Half characters, NUL and terminal control sequences are escaped; lines stay lines; and its length is bounded."""
    assert printable("ä — “fine”\n  second line", 100) == "ä — “fine”\n  second line"
    assert printable("a\ud800b\x00c", 100) == "a\\ud800b\\x00c"
    assert printable("\x1b[2Jgone\x07", 100) == "\\x1b[2Jgone\\x07"
    assert printable("x" * 5000, 2000) == "x" * 2000


def test_errors_carry_their_details_in_fields() -> None:
    """Code reads fields; only people read the text."""
    assert (Retry(2.5).after, str(Retry(2.5))) == (2.5, "retry after 2.5 s")
    assert Discard("no use").reason == "no use"
    assert InvalidId("node", "a b", "use letters").value == "a b"
