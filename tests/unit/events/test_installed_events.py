"""Events of other packages join the catalog on demand; a bad module is left out with its reason, and nothing else."""

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from ringrift.events import catalog
from ringrift.events.base import Event
from ringrift.kernel.errors import InputError

HEAD = "from ringrift.events.base import Event, MemoryEvent\n"
GOOD = f'{HEAD}class Read(Event, tag="lab.read"):\n    probe: str\nclass Beep(MemoryEvent, tag="lab.beep"):\n    pass\n'
SAME = f'{HEAD}class Same(Event, tag="lab.same"):\n    pass\n'


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that modules are imported from."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def entry(name: str, value: str = "") -> EntryPoint:
    """An entry point as a package declares it."""
    return EntryPoint(name=name, value=value or name, group="ringrift.events")


def test_the_events_of_a_module_are_listed(module: Path) -> None:
    """Classes with a name of their own that the module declares, and no imported ones."""
    (module / "lab_good.py").write_text(GOOD)

    classes, broken = catalog.find_installed([entry("lab_good")])

    assert [event.name() for event in classes] == ["lab.read", "lab.beep"]
    assert broken == {}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("import no_such_thing", "ModuleNotFoundError"),
        ("raise SystemExit(3)", "it tried to exit the program: SystemExit: 3"),
        (f'{HEAD}class Bad(Event, tag="no name"):\n    pass', "InvalidId"),
        (f'{HEAD}class Bad(Event, tag="lab.bad"):\n    x: int | list | set', "TypeError"),
        (f'{HEAD}class Ours(Event, tag="model.promoted"):\n    pass', "another package declares model.promoted too"),
    ],
)
def test_a_bad_module_disables_itself_alone(module: Path, content: str, reason: str) -> None:
    """Its reason is there for doctor; its neighbour is loaded."""
    name = f"lab_bad_{len(content)}"
    (module / f"{name}.py").write_text(content)
    (module / "lab_beside.py").write_text(GOOD)

    classes, broken = catalog.find_installed([entry(name), entry("lab_beside")])

    assert {event.name() for event in classes} == {"lab.read", "lab.beep"}
    [text] = broken.values()
    assert reason in text


def test_a_name_that_two_packages_declare_is_refused_to_both(module: Path) -> None:
    """Whichever is loaded first: neither can tell whose an event in the log is."""
    for name in ("lab_one", "lab_two"):
        (module / f"{name}.py").write_text(SAME)
    (module / "lab_other.py").write_text(GOOD)

    for entries in ([entry("lab_one"), entry("lab_two")], [entry("lab_two"), entry("lab_one")]):
        classes, broken = catalog.find_installed([*entries, entry("lab_other")])
        assert {event.name() for event in classes} == {"lab.read", "lab.beep"}
        assert set(broken) == {"lab_one (lab_one)", "lab_two (lab_two)"}


def test_what_is_no_module_is_refused(module: Path) -> None:
    """The entry point names a module, not a class in it."""
    (module / "lab_class.py").write_text(GOOD)

    classes, broken = catalog.find_installed([entry("lab", "lab_class:Read")])

    assert classes == []
    assert "must be a module" in broken["lab (lab_class:Read)"]


def test_an_event_that_no_reader_could_decode_is_not_encoded() -> None:
    """A class that is in no catalog is refused, also one under the name of an event of ours."""

    class Unlisted(Event, tag="lab.unlisted"):
        """Not declared by an entry point."""

    class Forged(Event, tag="node.left"):
        """A class of another shape under a name of ours."""

    for event in (Unlisted(), Forged()):
        with pytest.raises(InputError, match=r"is not in the catalog: declare its module under .* ringrift\.events"):
            catalog.encode(event)
