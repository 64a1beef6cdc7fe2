"""Which lines a run works on, which workload does their jobs, and what an own game gets without asking."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import pytest

from ringrift.cli import run_plan
from ringrift.cli.line_plans import LinePlan, default_variants, parse_variants, plan_lines
from ringrift.cli.run_plan import Plan, _Choice, _RunSession
from ringrift.kernel.errors import SettingsError, UnknownName
from ringrift.pipeline.line import Line
from ringrift.workload.api import Preset, VariantSpec
from ringrift.workload.fake import Fake
from ringrift.workload.registry import Registry
from unit.workload.test_registry import install

CHESS = VariantSpec("chess_2p", 2, 64, 1.0, baselines=("random", "greedy"), games_per_batch=32, slots=1)


class Chess(Fake):
    """A game of somebody else, without a preset."""

    name = "chess"
    specs: Sequence[VariantSpec] = (CHESS,)

    def variants(self) -> Sequence[VariantSpec]:
        return self.specs


class Broken(Chess):
    """The same where a module is missing."""

    requirements = ("no_such_module_at_all",)
    install_command = "pip install it"


REGISTRY = Registry({"chess": Chess, "fake": Fake})
HEX = Line(variant="hex8_2p", workload="fake", players=2)


@pytest.mark.parametrize("text", ["", ",", "hex8_2p,", " , hex8_2p", "hex8_2p,hex8_2p"])
def test_an_empty_or_double_variant_is_refused(text: str) -> None:
    """With the option and what is expected."""
    with pytest.raises(SettingsError, match="--variants"):
        parse_variants(text)


def test_spaces_around_variants_do_not_matter() -> None:
    """They come from the shell."""
    assert parse_variants("hex8_2p, chess_2p") == ("hex8_2p", "chess_2p")


def test_a_line_goes_on_with_the_workload_it_was_begun_with() -> None:
    """Whatever the run was started with; a new one gets the preferred workload if that plays it, else another."""
    plans, notes = plan_lines(["hex8_2p", "chess_2p"], [HEX], REGISTRY, "chess")

    assert {variant: plan.workload for variant, plan in plans.items()} == {"hex8_2p": "fake", "chess_2p": "chess"}
    assert notes == []


def test_a_workload_that_plays_the_same_variant_does_not_take_it_over() -> None:
    """A note says so."""

    class Other(Fake):
        name = "other"

    registry = Registry({"other": Other, "fake": Fake})
    plans, notes = plan_lines(["hex8_2p"], [HEX], registry, "other")

    assert plans["hex8_2p"].workload == "fake"
    assert notes == ["hex8_2p goes on with fake, with which it was begun; other would need another home"]


def test_a_line_whose_workload_cannot_run_here_waits() -> None:
    """The others go on; a run of nothing else is refused with the reason, and an unknown variant by its name."""
    registry = Registry({"chess": Broken, "fake": Fake})
    begun = [HEX, Line(variant="chess_2p", workload="chess", players=2)]

    plans, [note] = plan_lines(["chess_2p", "hex8_2p"], begun, registry, "fake")

    reason = "workload chess cannot run here: no_such_module_at_all not installed; install: pip install it"
    assert plans["chess_2p"].spec is None
    assert note == f"chess_2p waits: {reason}"
    with pytest.raises(SettingsError, match="no_such_module_at_all not installed"):
        plan_lines(["chess_2p"], begun, registry, "fake")
    with pytest.raises(UnknownName, match="unknown variant 'go_2p'"):
        plan_lines(["go_2p"], begun, registry, "fake")
    gone = Line(variant="chess_9p", workload="fake", players=9)
    assert "it does not offer chess_9p" in plan_lines(["chess_9p", "hex8_2p"], [gone], registry, "fake")[1][0]


def test_a_proof_asks_for_the_players_of_the_preset() -> None:
    """Without any for the weakest; for none if the variant declares none."""
    plan = LinePlan(workload="chess", spec=CHESS)

    assert plan.proof_baselines("chess_2p", Preset()) == ("random",)
    assert plan.proof_baselines("chess_2p", Preset(baselines={"chess_2p": ("greedy",)})) == ("greedy",)
    assert plan.proof_baselines("chess_2p", Preset(baselines={"chess_3p": ("greedy",)})) == ()
    assert LinePlan("chess", VariantSpec("chess_2p", 2, 64, 1.0)).proof_baselines("chess_2p", Preset()) == ()


BAD_PRESETS: list[tuple[Preset | Exception | str, str]] = [
    (Preset(baselines={"chess_2p": ("random", "nobody")}), "unknown baseline of chess_2p 'nobody'; known: greedy"),
    (Preset(baselines={"chess_3p": ("random",)}), "unknown variant 'chess_3p'"),
    (Preset(settings={"policy.games_per_bach": 7}), "unknown setting 'policy.games_per_bach'"),
    (Preset(settings={"work.slots": "many"}), "work.slots = 'many' is not valid"),
    (Preset(nodes=0), "its nodes 0 is not valid: must lie between 1 and 64"),
    (ZeroDivisionError("no cores"), "ZeroDivisionError: no cores"),
    ("fast", "it must be a ringrift.workload.api.Preset, not 'fast'"),
]


@pytest.mark.parametrize(("preset", "reason"), BAD_PRESETS, ids=[reason[:24] for _, reason in BAD_PRESETS])
def test_a_bad_preset_refuses_only_the_games_of_its_plug_in(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, preset: Preset | Exception | str, reason: str
) -> None:
    """Before the run, with the plug-in and what is bad; other games begin, and it is no default."""

    class Hasty(Chess):
        def preset(self, *, cores: int, nodes: int | None) -> Preset:
            if isinstance(preset, Exception):
                raise preset
            return preset  # type: ignore[return-value]  # as foreign code may

    registry = Registry({"chess": Hasty, "fake": Fake})

    assert plan_for(monkeypatch, tmp_path, run_plan._Previous(), registry).chosen.workload.name == "fake"
    assert list(plan_for(monkeypatch, tmp_path, run_plan._Previous(), registry, variants="hex8_2p").lines)
    with pytest.raises(SettingsError, match=r"chess_2p waits: .*preset of workload 'chess' is not valid") as caught:
        plan_for(monkeypatch, tmp_path, run_plan._Previous(), registry, variants="chess_2p")
    assert reason in str(caught.value)
    assert reason in registry.disabled["chess"]
    with pytest.raises(SettingsError, match="preset of workload 'chess' is not valid"):
        _Choice(Hasty()).settings(2)


def test_an_own_game_plays_its_own_variants() -> None:
    """Those of the settings if it offers any, else its own first ones."""
    assert default_variants((CHESS,), ("hex8_2p",)) == ("chess_2p",)
    assert default_variants(Fake().variants(), ("hex8_2p", "go_2p")) == ("hex8_2p",)


class Go(Fake):
    """A game that declares nothing of the kind."""

    name = "go"


def test_an_own_game_gets_the_same_care() -> None:
    """Its nodes share the cores, within the slots and with the batches that it declares."""
    chess, plain, cores = _Choice(Chess()), _Choice(Go()), run_plan.cores()

    assert chess.settings(2)["work.slots"] == 1
    assert (chess.settings(2)["policy.games_per_batch"], chess.settings(2)["policy.games_per_export"]) == (32, 128)
    assert [plain.settings(nodes)["work.slots"] for nodes in (1, 2, 64)] == [cores, max(cores // 2, 1), 1]
    assert plain.preset().nodes == min(3, cores)


MEASURED = """
from ringrift.workload.api import VariantSpec
from ringrift.workload.fake import Fake

class Go(Fake):
    name = "go"

    def variants(self):
        return (VariantSpec("go_2p", 2, 361, 1.0),)

    def measured_params(self):
        return {"threads": 3, "lr": 0.5}
"""


def options(home: Path, **words: object) -> argparse.Namespace:
    """What was typed."""
    blank = dict.fromkeys(("variants", "minutes", "iterations", "seed", "nodes"))
    return argparse.Namespace(**{**blank, "settings": None, "set": [], **words})


def plan_for(
    monkeypatch: pytest.MonkeyPatch,
    home: Path,
    previous: run_plan._Previous,
    registry: Registry = REGISTRY,
    **words: object,
) -> Plan:
    """The plan of a run with *words* on a store that is as *previous*."""
    monkeypatch.setenv("RINGRIFT_HOME", str(home))
    return run_plan._draw_plan(options(home, **words), {}, previous, registry)


def test_every_line_has_its_own_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Workload, policy by its preset, and the players that it declares; the goal and the seed are those of the run."""
    before = run_plan._Previous(lines=(HEX,), session=_RunSession(seed=9))

    plan = plan_for(monkeypatch, tmp_path, before, variants="hex8_2p,chess_2p", iterations=4)

    chess, fake = plan.lines["chess_2p"], plan.lines["hex8_2p"]
    assert (chess.workload, fake.workload) == ("chess", "fake")
    assert (chess.policy.games_per_batch, fake.policy.games_per_batch) == (32, 100)
    assert chess.baselines == ("random", "greedy")
    assert {(row.policy.iterations_max, row.policy.seed, row.policy.variants) for row in (chess, fake)} == {
        (4, 9, ("hex8_2p", "chess_2p"))
    }
    assert plan.session.variants == ("hex8_2p", "chess_2p")


def test_the_next_run_goes_on_with_the_variants_of_the_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Unless some are typed or set."""
    lines = (HEX, Line(variant="chess_2p", workload="chess", players=2))
    before = run_plan._Previous(lines=lines, session=_RunSession(variants=("chess_2p",)))

    assert list(plan_for(monkeypatch, tmp_path, before).lines) == ["chess_2p"]
    assert list(plan_for(monkeypatch, tmp_path, before, variants="hex8_2p").lines) == ["hex8_2p"]
    (tmp_path / "ringrift.toml").write_text("[policy]\nvariants = ['hex8_2p']\n")
    assert list(plan_for(monkeypatch, tmp_path, before).lines) == ["hex8_2p"]


def test_an_own_game_begins_with_a_random_seed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Which its store keeps; the fake has always the same."""
    plans = [plan_for(monkeypatch, tmp_path, run_plan._Previous(), variants="chess_2p") for _ in range(4)]

    assert len({plan.settings.policy.seed for plan in plans}) > 1
    assert all(plan.session.seed == plan.settings.policy.seed for plan in plans)
    fake = plan_for(monkeypatch, tmp_path, run_plan._Previous(), variants="hex8_3p")
    assert (fake.settings.policy.seed, fake.session.seed) == (0, None)


def test_an_own_game_is_measured_if_it_can_be(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each line has what was measured for its own workload; what a person has set stays."""
    install(tmp_path, monkeypatch, "measured_go", MEASURED, "go = measured_go:Go")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "ringrift.toml").write_text("[work.params]\nlr = 0.1\n")
    registry = Registry.load({})

    plan = plan_for(monkeypatch, tmp_path, run_plan._Previous(), registry, variants="go_2p")

    assert plan.lines["go_2p"].params == {"threads": 3, "lr": 0.1}


STRICT = """
from ringrift.workload.api import ParamSpec, VariantSpec
from ringrift.workload.fake import Fake

class Go(Fake):
    name = "go"
    params = (ParamSpec("depth", 4, "Depth.", 1, 8),)

    def variants(self):
        return (VariantSpec("go_2p", 2, 361, 1.0),)
"""


def test_the_parameters_of_every_game_of_a_run_are_checked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Not only those of the game that decides on nodes and times."""
    install(tmp_path, monkeypatch, "strict_go", STRICT, "go = strict_go:Go")
    (tmp_path / "ringrift.toml").write_text("[work]\nworkload = 'fake'\n[work.params]\ndepth = 9\n")

    with pytest.raises(SettingsError, match=r"work\.params\.depth = 9 .*between 1 and 8"):
        plan_for(monkeypatch, tmp_path, run_plan._Previous(), Registry.load({}), variants="hex8_2p,go_2p")


def test_a_line_that_rests_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """So that nobody wonders."""
    before = run_plan._Previous(lines=(HEX,))

    assert "hex8_2p: at rest during this run" in plan_for(monkeypatch, tmp_path, before, variants="chess_2p").notes
    assert not any("at rest" in note for note in plan_for(monkeypatch, tmp_path, before, variants="hex8_2p").notes)


def test_nodes_and_times_are_those_of_a_workload_that_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of the chosen one if a line has it, else of the first line's."""
    before = run_plan._Previous(lines=(HEX, Line(variant="chess_2p", workload="chess", players=2)))

    both = plan_for(monkeypatch, tmp_path, before, variants="chess_2p,hex8_2p")
    broken = Registry({"chess": Broken, "fake": Fake})

    assert both.chosen.workload.name == "fake"  # with which the store was begun
    assert plan_for(monkeypatch, tmp_path, before, variants="chess_2p").chosen.workload.name == "chess"
    rest = plan_for(monkeypatch, tmp_path, before, broken, variants="chess_2p,hex8_2p")
    assert (rest.chosen.workload.name, list(rest.lines), list(rest.specs)) == (
        "fake",
        ["chess_2p", "hex8_2p"],
        ["hex8_2p"],
    )
