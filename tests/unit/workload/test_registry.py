"""The registry: installed workloads, configured workloads, and the choice for a variant."""

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ringrift.kernel.errors import InvalidId, SettingsError, UnknownName
from ringrift.workload.api import VariantSpec, Workload
from ringrift.workload.fake import Fake
from ringrift.workload.registry import Registry


class Chess(Fake):
    """Plays the fake's game under other names."""

    name = "chess"

    def __init__(self, *names: str) -> None:
        self._names = names or ("chess_2p",)

    def variants(self) -> Sequence[VariantSpec]:
        return tuple(VariantSpec(name, 2, 64, 1.0) for name in self._names)


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, module: str, source: str, entry: str) -> None:
    """Make *source* an installed package that offers *entry*, as pip would leave it."""
    (folder / f"{module}.py").write_text(source)
    metadata = folder / f"{module}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[ringrift.workloads]\n{entry}\n")
    monkeypatch.syspath_prepend(str(folder))


GOOD = "from ringrift.workload.fake import Fake\nclass Go(Fake):\n    name = 'go'\n"


def test_the_fake_is_always_there_and_last() -> None:
    """Installed or not, the bundled fake is listed; every other workload comes before it."""
    registry = Registry.load({})

    assert list(registry.makers)[-1] == "fake"
    assert isinstance(registry.get("fake"), Fake)


def test_an_installed_plug_in_is_registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry point of the group is a workload; it is made once, and before the fake it plays its variants."""
    install(tmp_path, monkeypatch, "plugin_go", GOOD, "go = plugin_go:Go")

    registry = Registry.load({})

    assert "go" in registry.makers
    assert isinstance(registry.get("go"), Workload)
    assert registry.get("go") is registry.get("go")
    assert registry.owner("hex8_2p", prefer="go") == "go"


def test_what_comes_with_ringrift_precedes_other_plug_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever their names are, so that installing one changes no default; the others follow by name."""
    before = list(Registry.load({}).makers)
    for name in ("zz", "aa"):
        install(tmp_path, monkeypatch, f"plugin_{name}", GOOD, f"{name} = plugin_{name}:Go")
    install(tmp_path, monkeypatch, "plugin_thief", GOOD, "reversi = plugin_thief:Go")

    registry = Registry.load({})

    assert before[-1] == "fake"
    assert list(registry.makers) == [*before[:-1], "aa", "zz", "fake"]
    assert "reversi" not in registry.disabled


def test_nothing_is_loaded_before_its_first_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plug-in that cannot be imported, or a program that is missing, affects only its own users."""
    install(tmp_path, monkeypatch, "plugin_torn", "import no_such_module_at_all", "torn = plugin_torn:Torn")

    registry = Registry.load({"gone": ["/no/such/program"]})

    assert {"gone", "torn"} <= set(registry.makers)
    assert registry.owner("hex8_2p", "fake") == "fake"
    assert "plugin_torn" not in sys.modules
    with pytest.raises(SettingsError, match="ModuleNotFoundError: No module named 'no_such_module_at_all'"):
        registry.get("torn")
    with pytest.raises(SettingsError, match="workload 'gone' cannot be started"):
        registry.get("gone")


@pytest.mark.parametrize("source", ["raise ValueError('half written')", "raise SystemExit(3)", "1 / 0", "x ="])
def test_a_plug_in_that_does_not_import_disables_itself_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    """Its reason can be read, every other workload plays its variants, and no list of variants raises."""
    module = f"plugin_broken_{abs(hash(source))}"
    install(tmp_path, monkeypatch, module, source, f"broken = {module}:Broken")

    registry = Registry.load({})

    assert registry.owner("square19_4p", "broken") in ("fake", "reversi")
    assert registry.variants_of("broken") == ()
    assert set(registry.disabled) == {"broken"}
    assert "Error" in registry.disabled["broken"] or "exit the program" in registry.disabled["broken"]
    assert "does not load" in registry.find_missing("broken")


def test_a_workload_that_cannot_run_here_gives_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is not installed, that misses a module or whose program is missing; one that runs has none."""
    needs = GOOD + "    requirements = ('no_such_module_at_all',)\n    install_command = 'pip install it'\n"
    install(tmp_path, monkeypatch, "plugin_needs", needs, "go = plugin_needs:Go")

    registry = Registry.load({"gone": ["/no/such/program"], "here": [sys.executable]})

    assert registry.find_missing("chess") == "it is not installed"
    assert registry.find_missing("go") == "no_such_module_at_all not installed; install: pip install it"
    assert registry.find_missing("gone") == "program not found: /no/such/program"
    assert (registry.find_missing("here"), registry.find_missing("fake")) == ("", "")


@pytest.mark.parametrize("maker", ["plugin_misnamed:Go", "builtins:dict"])
def test_an_entry_point_must_make_a_workload_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, maker: str
) -> None:
    """Another name, or no workload at all, is refused with the entry point that offers it."""
    install(tmp_path, monkeypatch, "plugin_misnamed", GOOD, f"shogi = {maker}")

    registry = Registry.load({})

    with pytest.raises(SettingsError, match=f"{maker} must make a Workload of the name shogi"):
        registry.get("shogi")


def test_an_executable_hides_an_entry_point(tmp_path: Path) -> None:
    """A workload in the settings outweighs an installed one."""
    script = tmp_path / "plugin.py"
    script.write_text('print(\'{"version": "9", "variants": []}\')')

    registry = Registry.load({"fake": [sys.executable, "-I", "-S", str(script)]})

    assert registry.get("fake").version == "9"


def test_an_unknown_workload_is_named() -> None:
    """The error lists the available ones."""
    with pytest.raises(UnknownName, match=r"unknown workload 'chess'; known: .*fake") as caught:
        Registry.load({}).get("chess")

    assert (caught.value.kind, caught.value.name) == ("workload", "chess")


@pytest.mark.parametrize("name", ["", "a b", "../x", "x" * 65])
def test_a_workload_needs_a_proper_name(name: str) -> None:
    """A name from the settings that cannot be an id is refused at once."""
    with pytest.raises(InvalidId):
        Registry.load({name: ["true"]})


def test_the_workload_of_a_variant_can_be_chosen() -> None:
    """The caller's choice comes first, then the order among those that offer the variant."""
    registry = Registry({"chess": lambda: Chess("hex8_2p", "chess_2p"), "fake": Fake})

    assert registry.owner("hex8_2p") == "chess"
    assert registry.owner("hex8_2p", prefer="fake") == "fake"
    assert registry.owner("hex8_2p", prefer="chess") == "chess"
    assert registry.owner("chess_2p", prefer="fake") == "chess"
    assert registry.variants_of("chess")[1] == VariantSpec("chess_2p", 2, 64, 1.0)


def test_an_unknown_variant_is_named() -> None:
    """A variant without a workload, an invalid variant, and an unknown choice are three different errors."""
    registry = Registry({"fake": Fake})

    with pytest.raises(UnknownName) as caught:
        registry.owner("chess_2p")
    with pytest.raises(InvalidId):
        registry.owner("chess")
    with pytest.raises(UnknownName, match="workload 'go'"):
        registry.owner("hex8_2p", prefer="go")

    assert (caught.value.kind, caught.value.names[:1]) == ("variant", ("hex8_2p",))


@pytest.mark.parametrize("name", ["Chess 8x8", "chess", "chess_3p", "chess_2p\n", "../chess_2p"])
def test_a_workload_with_an_improper_variant_is_refused(name: str) -> None:
    """A variant that does not parse, or whose players do not agree with its name, disables its workload."""
    registry = Registry({"chess": lambda: Chess(name), "fake": Fake})

    assert "variant of workload 'chess'" in registry.disabled["chess"]
    assert (registry.variants_of("chess"), registry.owner("hex8_2p")) == ((), "fake")


def test_a_registry_does_not_change() -> None:
    """It is a value: neither its fields nor its table can be written."""
    registry = Registry.load({})

    with pytest.raises(dataclasses.FrozenInstanceError):
        registry.programs = {}  # type: ignore[misc]  # the checker sees it too
    with pytest.raises(TypeError):
        registry.makers["more"] = Fake  # type: ignore[index]  # the checker sees it too
