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


def test_nothing_is_loaded_before_its_first_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plug-in that cannot be imported, or a program that is missing, affects only its own users."""
    install(tmp_path, monkeypatch, "plugin_torn", "import no_such_module_at_all", "torn = plugin_torn:Torn")

    registry = Registry.load({"gone": ["/no/such/program"]}, prefer="fake")

    assert {"gone", "torn"} <= set(registry.makers)
    assert registry.owner("hex8_2p") == "fake"
    assert "plugin_torn" not in sys.modules
    with pytest.raises(ModuleNotFoundError):
        registry.get("torn")
    with pytest.raises(RuntimeError, match="gone"):
        registry.get("gone")


@pytest.mark.parametrize("maker", ["plugin_misnamed:Go", "builtins:dict"])
def test_an_entry_point_must_make_a_workload_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, maker: str
) -> None:
    """Another name, or no workload at all, is refused with the setting that names it."""
    install(tmp_path, monkeypatch, "plugin_misnamed", GOOD, f"shogi = {maker}")

    registry = Registry.load({})

    with pytest.raises(SettingsError, match=r"workloads\.shogi"):
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
    """The caller's choice comes first, then the configured workload, then the order among those that offer the
    variant."""
    makers = {"chess": lambda: Chess("hex8_2p", "chess_2p"), "fake": Fake}

    plain, configured = Registry(makers), Registry(makers, prefer="fake")

    assert plain.owner("hex8_2p") == "chess"
    assert plain.owner("hex8_2p", prefer="fake") == "fake"
    assert configured.owner("hex8_2p") == "fake"
    assert configured.owner("hex8_2p", prefer="chess") == "chess"
    assert configured.owner("chess_2p") == "chess"
    assert plain.variants()["hex8_2p"][0] == "chess"
    assert configured.variants()["hex8_2p"][0] == "fake"
    assert configured.variants()["chess_2p"] == ("chess", VariantSpec("chess_2p", 2, 64, 1.0))


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
    """A variant that does not parse, or whose players do not agree with its name, is laid at the workload's door."""
    registry = Registry({"chess": lambda: Chess(name)})

    with pytest.raises(InvalidId, match="variant of workload 'chess'") as caught:
        registry.variants()

    assert caught.value.value == name


def test_a_registry_does_not_change() -> None:
    """It is a value: neither its fields nor its table can be written."""
    registry = Registry.load({})

    with pytest.raises(dataclasses.FrozenInstanceError):
        registry.prefer = "fake"  # type: ignore[misc]  # the checker sees it too
    with pytest.raises(TypeError):
        registry.makers["more"] = Fake  # type: ignore[index]  # the checker sees it too
