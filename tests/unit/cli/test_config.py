"""Settings have one truth: what ``config show`` and ``doctor`` print is the plan of the run itself."""

import asyncio
import json
import re
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from ringrift.cli.command import parse_overrides
from ringrift.cli.main import build_parser, main
from ringrift.cli.plan_view import difference
from ringrift.cli.run_plan import make_plan
from ringrift.cli.runs import RUNS, RunRecord, begin_run, end_run
from ringrift.cli.setting_notes import setting_notes
from ringrift.environment import InForce, read_settings
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import SettingsError
from ringrift.kernel.exit_codes import ExitCode
from ringrift.kernel.settings import Settings
from ringrift.store.open import open_store
from ringrift.workload.fake import Fake
from unit.workload.test_registry import install

FAKE = ("--set", "work.workload=fake")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home that does not exist yet."""
    monkeypatch.setenv("RINGRIFT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def output(capsys: pytest.CaptureFixture[str]) -> Any:
    """A function that runs a command: its exit code, stdout and stderr."""

    def call(*words: str) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as end:
            main(words)
        return end.value.code, *capsys.readouterr()

    return call


def plan_of(*words: str) -> dict[str, InForce]:
    """The settings of the plan with which ``ringrift run`` would begin."""
    options = build_parser("run").parse_args(["run", *words])
    return make_plan(options, parse_overrides(options.set)).effective.in_force()


def test_config_show_is_the_plan_of_the_run(home: Path, output: Any) -> None:
    """Value by value and origin by origin, presets included, and nothing is created."""
    words = (*FAKE, "--set", "policy.games_per_batch=7", "--set", "work.params.fake_every=3")

    code, text, _ = output("config", "show", "--effective", "--json", *words)

    assert code == 0
    shown = {key: InForce(**item) for key, item in json.loads(text)["settings"].items()}
    assert not home.exists()
    expected = plan_of(*words)
    assert {key: item.origin for key, item in shown.items()} == {key: item.origin for key, item in expected.items()}
    assert json.loads(text)["settings"] == json.loads(
        json.dumps({key: {"value": item.value, "origin": item.origin} for key, item in expected.items()})
    )
    assert shown["policy.games_per_batch"] == InForce(value=7, origin="command line")
    assert shown["policy.iterations_max"] == InForce(value=3, origin="run")


def test_config_show_has_what_differs_and_hides_the_rest(home: Path, output: Any) -> None:
    """Without ``--effective`` only what is not a default; ``--origin`` says where the value in force comes from."""
    home.mkdir()
    (home / "ringrift.toml").write_text('[work]\nslots = 3\nworkload = "fake"\n[bus]\nbatch = 5\n')

    _, text, _ = output("config", "show", "--origin", "--set", "bus.batch=9")

    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines() if "." in line.split(" ")[0]}
    assert rows["work.slots"] == ["3", str(home / "ringrift.toml")]
    assert rows["bus.batch"] == ["9", "command", "line"]
    assert "policy.auto" not in rows
    assert "more have their defaults (--effective)" in text
    assert "workload fake, " in text


def test_a_variant_is_shown_as_a_run_of_it_would_have_it(home: Path, output: Any) -> None:
    """And one that no workload plays is refused."""
    _, text, _ = output("config", "show", "hex8_4p", "--json", *FAKE)
    code, _, errors = output("config", "show", "chess_2p", *FAKE)

    assert json.loads(text)["settings"]["policy.variants"] == {"value": ["hex8_4p"], "origin": "command line"}
    assert (code, "unknown variant 'chess_2p'" in errors) == (2, True)


def test_doctor_shows_the_same_settings_the_machine_and_the_plug_ins(home: Path, output: Any) -> None:
    """A table of checks, and the same settings as ``config show``."""
    _, text, _ = output("doctor", "--json", *FAKE)
    _, config, _ = output("config", "show", "--effective", "--json", *FAKE)

    doctor = json.loads(text)
    shown = {key: {"value": json.loads(value), "origin": origin} for key, value, origin in doctor["settings"]}
    assert shown == json.loads(config)["settings"]
    assert {"cores", "memory", "GPU", "torch", "python"} == doctor["machine"].keys()
    checks = {check["name"]: check for check in doctor["checks"]}
    assert checks["plug-in fake"] == {"name": "plug-in fake", "good": True, "detail": "ok"}
    assert checks["run"]["good"]


def test_a_plug_in_with_a_bad_preset_is_named_and_changes_nothing_else(
    home: Path, output: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``config show`` is as before, ``doctor`` says what is bad about the plug-in, and its own game is refused."""

    def shown() -> dict[str, Any]:
        """What a run would use, but for what is measured anew each time."""
        config: dict[str, Any] = json.loads(output("config", "show", "--effective", "--json")[1])
        fixed = {key: item for key, item in config["settings"].items() if item["origin"] != "measured"}
        return config | {"settings": fixed}

    before = shown()
    source = "from unit.workload.test_registry import Chess\nclass Hasty(Chess):\n    name = 'aa'\n"
    source += "    def preset(self, *, cores, nodes):\n        return 1 / 0\n"
    install(tmp_path, monkeypatch, "plugin_hasty", source, "aa = plugin_hasty:Hasty")

    after, refused = shown(), output("run", "--variants", "chess_2p")
    _, text, _ = output("doctor", "--json")

    assert after == before
    checks = {check["name"]: check for check in json.loads(text)["checks"]}
    reason = "preset of workload 'aa' is not valid: ZeroDivisionError: division by zero"
    assert (checks["plug-in aa"]["good"], checks["plug-in aa"]["detail"]) == (False, f"disabled: {reason}")
    assert checks["run"]["good"]
    assert refused[0] == ExitCode.WRONG_INPUT
    assert reason in refused[2]
    assert not home.exists()


def test_doctor_says_why_a_run_could_not_begin(home: Path, output: Any) -> None:
    """As one bad check beside the others."""
    code, text, _ = output("doctor", "--json", "--set", "work.workload=chess")

    [check] = [check for check in json.loads(text)["checks"] if check["name"] == "run"]
    assert (code, check["good"]) == (1, False)
    assert check["detail"].startswith("a run could not begin: unknown workload 'chess'")


def test_a_plug_in_that_raises_at_import_is_named_and_harms_nothing_else(
    home: Path, output: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Doctor has its reason, other workloads run, and whoever wants this one gets exit code 2 and one line."""
    (tmp_path / "broken_game.py").write_text("raise RuntimeError('no board')\n")
    info = tmp_path / "broken_game-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-game\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ringrift.workloads]\nbroken = broken_game:Game\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    code, text, _ = output("doctor", "--json", *FAKE)
    refused, _, errors = output("run", "--variants", "hex8_2p", "--set", "work.workload=broken")

    checks = {check["name"]: check for check in json.loads(text)["checks"]}
    assert code == 1
    assert checks["plug-in broken"] == {
        "name": "plug-in broken",
        "good": False,
        "detail": "disabled: RuntimeError: no board",
    }
    assert checks["run"]["good"]
    assert checks["plug-in fake"]["good"]
    assert refused == 2
    assert errors.splitlines()[-1].startswith("ringrift: setting work.workload = 'broken' is not valid: the plug-in")
    assert not home.exists()


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("work.slots=4", "work.slots", 4),
        ("policy.auto=false", "policy.auto", False),
        ('policy.variants=["hex8_2p", "hex8_3p"]', "policy.variants", ("hex8_2p", "hex8_3p")),
        ("node.id=7", "node.id", "7"),
        ('node.id="a"', "node.id", "a"),
        ("node.id=a", "node.id", "a"),
        ("cluster.beat_seconds=1e1", "cluster.beat_seconds", 10.0),
        ("work={slots = 5}", "work.slots", 5),
        ("work.params.lr=0.5", "work.params.lr", 0.5),
        ("work.params.mode=fast", "work.params.mode", "fast"),
        ('work.params.mode="1"', "work.params.mode", "1"),
        ("imports.folder=a=b", "imports.folder", "a=b"),
    ],
)
def test_set_takes_toml_and_plain_text(text: str, key: str, value: object) -> None:
    """Numbers, lists, booleans and tables as in TOML; text needs no quotes."""
    effective = read_settings({}, overrides=parse_overrides([text]))

    expected = list(value) if isinstance(value, tuple) else value
    assert effective.in_force()[key] == InForce(value=expected, origin="command line")


@pytest.mark.parametrize("text", ["work.slots=4\nbus.batch=1", "work.slots=[4]", "work.slots=07:32:00", "work.slots="])
def test_set_refuses_what_is_no_value(text: str) -> None:
    """A second line is no second setting."""
    with pytest.raises(SettingsError, match=r"work\.slots.* must be a whole number"):
        read_settings({}, overrides=parse_overrides([text]))


@pytest.mark.parametrize("value", ["1" + "0" * 400, "nan", "inf", "1e400"])
def test_a_parameter_that_no_store_could_hold_is_refused(value: str) -> None:
    """By its name."""
    with pytest.raises(SettingsError, match=r"work\.params\.x .*finite number"):
        read_settings({}, overrides=parse_overrides([f"work.params.x={value}"]))


def test_every_setting_is_explained() -> None:
    """Each has a meaning and says when to change it, and each number has a unit and the range that is enforced."""
    notes = setting_notes()
    texts = tomllib.loads(files("ringrift.kernel").joinpath("settings.toml").read_text("utf-8"))
    fields = {name.rpartition(".")[2] for name in notes}

    assert {name for about in texts.values() for name in about} - {"change"} <= fields, "a note without a setting"
    assert [key for key, note in notes.items() if not (note.meaning and note.change and note.kind)] == []
    assert [key for key, note in notes.items() if note.range and not note.unit] == []
    assert notes["work.lease_seconds"].unit == "seconds"
    assert notes["work.slots"].range == "1 … 1024"
    assert notes["policy.gate.elo_1"].default == Settings().policy.gate.elo_1


def test_explain_prints_a_setting(home: Path, output: Any) -> None:
    """With everything that the reference says; an unknown one suggests the close ones."""
    code, text, _ = output("config", "explain", "work.slots")
    refused, _, errors = output("config", "explain", "work.slot", *FAKE)

    assert code == 0
    assert text.splitlines()[0] == "work.slots"
    assert all(
        part in text for part in ("Jobs that a node runs", "type: ", "unit: ", "range: ", "default: 2", "change")
    )
    assert refused == 2
    assert "did you mean work.slots" in errors


def record(home: Path, **overrides: object) -> RunRecord:
    """Record a run with these settings, from beginning to end."""

    async def main() -> RunRecord:
        effective = read_settings(overrides={"work.workload": "fake", **overrides})
        async with open_store(effective.settings.store, SystemClock()) as store:
            run = await begin_run(store, effective, began=1000.0, pid=7, minutes=2.0)
            await end_run(store, run, ended=1090.0, seconds=88.0)
            async with store.read() as view:
                stored = await RUNS.get(view, run.id)
            assert stored is not None
            return stored

    (home / "coordination").mkdir(parents=True, exist_ok=True)
    return asyncio.run(main())


def test_a_run_stores_its_settings(home: Path, output: Any) -> None:
    """With origins, its times and a short id; ``config runs`` lists them."""
    first, second = record(home, **{"work.slots": 3}), record(home)

    assert (first.id, second.id) == ("r1", "r2")
    assert (first.ended, first.seconds, first.minutes, first.pid) == (1090.0, 88.0, 2.0, 7)
    assert first.settings["work.slots"] == InForce(value=3, origin="command line")
    _, text, _ = output("config", "runs")
    assert [line.split()[0] for line in text.splitlines()] == ["run", "r1", "r2"]


def test_config_diff_shows_what_differs(home: Path, output: Any) -> None:
    """Between a run and now, between two runs; what is equal is left out."""
    record(home, **{"work.slots": 3})
    record(home)

    _, two, _ = output("config", "diff", "r1", "r2", "--json")
    _, now, _ = output("config", "diff", "last", "--json", *FAKE, "--set", "bus.batch=9")
    code, _, errors = output("config", "diff", "r9")

    assert json.loads(two) == {
        "work.slots": {"before": {"value": 3, "origin": "command line"}, "after": {"value": 2, "origin": "default"}}
    }
    differing = json.loads(now)
    assert differing["bus.batch"]["after"] == {"value": 9, "origin": "command line"}
    assert differing.keys() <= {"bus.batch", "policy.iterations_max"}
    assert (code, "unknown run 'r9'" in errors) == (2, True)


def test_a_setting_that_only_one_side_has_differs() -> None:
    """As for a parameter that another workload measured."""
    before = {"work.params.dtype": InForce(value="x", origin="measured"), "a": InForce(value=1, origin="default")}

    assert difference(before, {"a": InForce(value=1, origin="preset")}) == {
        "work.params.dtype": (before["work.params.dtype"], InForce(value=None, origin="not set"))
    }


def test_a_start_warns_of_variables_without_effect(home: Path, output: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line each on stderr, at every start of a run; a look stays quiet."""
    monkeypatch.setenv("RINGRIFT_NODE_IDD", "a")
    monkeypatch.setenv("RINGRIFT_RAFT_ENABLED", "a")

    _, _, errors = output("run", "--variants", "chess_2p", *FAKE)
    _, _, quiet = output("config", "show", *FAKE)

    assert errors.splitlines()[:2] == [
        "ringrift: warning: RINGRIFT_NODE_IDD is unknown and has no effect; did you mean RINGRIFT_NODE_ID?",
        "ringrift: warning: RINGRIFT_RAFT_ENABLED has no effect yet; it comes with: a store on several machines",
    ]
    assert quiet == ""


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("statsu",), "unknown command 'statsu'; did you mean status"),
        (("run", "--minuts", "3"), "unrecognized arguments: --minuts 3; did you mean --minutes?"),
        (("readers", "forgt"), "unknown verb 'forgt'; known: forget, list"),
    ],
)
def test_a_misspelt_word_is_named_with_the_close_ones(words: tuple[str, ...], hint: str, output: Any) -> None:
    """Commands, verbs and options."""
    code, _, errors = output(*words)

    assert code == 2
    assert hint in errors


def test_every_exit_code_has_a_meaning() -> None:
    """The reference of the command line prints them."""
    reference = (Path(__file__).parents[3] / "docs" / "reference" / "cli.md").read_text()

    assert [code for code in ExitCode if not re.search(rf"^\| {code:d} \| \S.+ \|$", reference, re.MULTILINE)] == []


def test_the_fake_declares_no_parameters() -> None:
    """So it takes any: the tests that request faults rely on it."""
    assert not hasattr(Fake, "params")
