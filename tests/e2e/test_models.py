"""Models change by real processes: opening a champion's link always yields a whole model, whatever is killed."""

import hashlib
import json
import os
import pickle  # noqa: TID251 - makes the hostile file
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from e2e.processes import EXIT_FAILPOINT, PATIENCE_SECONDS, SHARP, Home, kill, reached
from ringrift.daemons.link_champions import _names
from ringrift.workload import kit
from ringrift.workload.fake import FORM
from wait import until

VARIANTS = ("hex8_2p", "hex8_3p")
LOOK_SECONDS = 0.002
# The nth promotion of the process, once it is decided, arms the failpoint at which the process dies.
PROGRAM = """
import sys
from itertools import count
from ringrift.cli.main import main
from ringrift.kernel import failpoint
from ringrift.pipeline import moves

decide, numbers = moves.promote, count(1)

def promote(*given):
    if next(numbers) == {nth}:
        failpoint.arm({place!r})
    return decide(*given)

moves.promote = promote
main(sys.argv[1:])
"""
PLACES = (
    "pipeline.before_step",
    "pipeline.after_step",
    "bus.before_advance",
    "bus.after_advance",
    "store.before_commit",
    "store.after_commit",
    "work.after_claim",
    "sync.before_copy",
    "sync.after_copy",
    "desk.before_finish",
    "desk.after_finish",
    "link_champions.before_link",
    "link_champions.after_link",
)
"""Before and after each step of a promotion, in the order in which it passes them."""


def events_of(home: Home, name: str) -> list[dict[str, Any]]:
    """Every event of *name* in the log."""
    return [json.loads(body) for (body,) in home.ask("SELECT body FROM log WHERE name = ? ORDER BY position", name)]


def was_made_champion(home: Home, variant: str, model: str) -> bool:
    """Whether the log shows that *model* was checked and then became the champion of *variant*."""
    query = """SELECT min(position) FROM log WHERE name = ? AND json_extract(body, '$.variant') = ?
        AND json_extract(body, '$.model') = ?"""
    [(checked,)] = home.ask(query, "model.verified", variant, model)
    [(crowned,)] = home.ask(query, "model.promoted", variant, model)
    return checked is not None and crowned is not None and checked < crowned


@contextmanager
def watched(home: Home) -> Iterator[tuple[list[str], set[tuple[str, str]]]]:
    """Open every link again and again all the while: the errors, and the models linked_models for each variant."""
    over, problems, linked_models = threading.Event(), list[str](), set[tuple[str, str]]()

    def watch() -> None:
        links = [(variant, home.path / "models" / name) for variant in VARIANTS for name in _names(variant)]
        there = set[Path]()
        while not over.wait(LOOK_SECONDS):
            for variant, link in links:
                try:
                    data = link.read_bytes()
                except FileNotFoundError:
                    if link in there:
                        problems.append(f"{link.name} led nowhere")
                    continue
                there.add(link)
                model = hashlib.sha256(data).hexdigest()
                if (variant, model) not in linked_models:
                    linked_models.add((variant, model))
                    if not was_made_champion(home, variant, model):
                        problems.append(f"{link.name} led to {model}, which never was champion")

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield problems, linked_models
    finally:
        over.set()
        watcher.join()


def assert_promoted_once(home: Home) -> None:
    """Each promotion is one event, one decision and one step of its line's count."""
    events = Counter((event["variant"], event["model"]) for event in events_of(home, "model.promoted"))
    rows = [decision for decision in home.records("decision") if decision["promoted"]]
    decisions = Counter((decision["variant"], decision["model"]) for decision in rows)
    assert events == decisions
    assert set(events.values()) <= {1}
    for variant, line in home.lines().items():
        proven = [
            event for event in events_of(home, "model.promoted") if event["variant"] == variant and event["evidence"]
        ]
        assert line.iteration == len(proven)


def start(home: Home, place: str, nth: int) -> "subprocess.Popen[str]":
    """Start a run that dies at *place* in its *nth* promotion."""
    program = PROGRAM.format(place=place, nth=nth)
    return home.launch(program, "run", "--iterations", "0", "--variants", ",".join(VARIANTS))


@pytest.mark.timeout(200)
def test_a_kill_at_any_step_of_a_promotion(home: Home, gone: Callable[[Home], bool]) -> None:
    """A reader always loads a champion that was checked, of its own variant; each promotion counts once."""
    with watched(home) as (problems, linked_models):
        for number, place in enumerate(PLACES):
            process = start(home, place, number % 2 + 1)
            output, _ = process.communicate(timeout=PATIENCE_SECONDS)

            assert process.returncode == EXIT_FAILPOINT, f"{place} was never passed:\n{output[-2000:]}"
            assert gone(home), f"{place}: workers outlived their node"
            assert_promoted_once(home)
        goal = max(line.iteration for line in home.lines().values()) + 1
        code, output = home.run("run", "--iterations", str(goal), "--variants", ",".join(VARIANTS))
        assert code == 0, output[-3000:]
    assert_promoted_once(home)
    assert problems == []
    for variant, line in home.lines().items():
        assert (variant, line.champion) in linked_models, "the last champion is linked before the run ends"
        assert len([pair for pair in linked_models if pair[0] == variant]) > 3


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home whose line has had two promotions; tests get copies."""
    home = Home(tmp_path_factory.mktemp("twice") / "home")
    code, output = home.run("run", "--iterations", "2", "--variants", "hex8_2p")
    assert code == 0, output
    return home


@pytest.fixture
def promoted(twice: Home, tmp_path: Path) -> Iterator[Home]:
    """A copy of a home whose line has had two promotions; none of its processes is left running afterwards."""
    home = twice.copied(tmp_path / "promoted")
    yield home
    home.clear()


@pytest.mark.parametrize(("place", "done"), [("store.before_commit", False), ("store.after_commit", True)])
def test_a_rollback_that_is_killed_has_happened_or_not(promoted: Home, place: str, done: bool) -> None:
    """Pointer, states, decision, event and job are there together or not at all, and the next start continues."""
    home = promoted
    line = home.lines()["hex8_2p"]
    key = f"distribute:hex8_2p:{line.previous}"

    process = home.start("models", "rollback", "hex8_2p", failpoint=(place, 1))
    output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == EXIT_FAILPOINT, output

    states = {row["model"]: row["state"] for row in home.records("model")}
    assert home.lines()["hex8_2p"].champion == (line.previous if done else line.champion)
    assert len(events_of(home, "model.rolled_back")) == done
    assert [decision["kind"] for decision in home.records("decision")].count("rollback") == done
    assert (states[str(line.champion)], states[str(line.previous)]) == (
        ("rolled_back", "champion") if done else ("champion", "retired")
    )
    assert home.ask("SELECT state FROM jobs WHERE key = ? AND state = 'ready'", key) == [("ready",)] * done
    code, output = home.run("run", "--iterations", "3", "--variants", "hex8_2p")
    assert code == 0, output[-2000:]
    assert linked(home) == {champion(home)}
    assert_promoted_once(home)


# -- by hand, while a coordinator runs ---------------------------------------------------------------------------------

# It collects for ever, so that only manual commands move the line.
PATIENT = SHARP.replace("games_per_export = 60", "games_per_export = 1000000")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A home whose loop runs and whose lines only collect."""
    home = Home(tmp_path_factory.mktemp("models") / "home", PATIENT)
    process = home.start("run", "--iterations", "0", "--variants", ",".join(VARIANTS))
    try:
        links = [home.path / "models" / name for variant in VARIANTS for name in _names(variant)]
        reached(process, lambda: all(link.exists() for link in links))
        reached(process, lambda: sorted(line.stage for line in home.lines().values()) == ["collecting"] * 2)
        yield home
    finally:
        kill(process)


def champion(home: Home, variant: str = "hex8_2p") -> str:
    """The champion of *variant*."""
    model = home.lines()[variant].champion
    assert model is not None
    return model


def linked(home: Home, variant: str = "hex8_2p") -> set[str]:
    """The models to which the links of *variant* lead."""
    return {hashlib.sha256((home.path / "models" / name).read_bytes()).hexdigest() for name in _names(variant)}


def foreign(home: Home, path: Path, stronger: float = 300.0, variant: str = "hex8_2p") -> Path:
    """A file with a model from elsewhere: the champion, made *stronger*."""
    shelf = champion(home, variant)[:2]
    [file, *_] = (home.path / "blobs").glob(f"*/{shelf}/{champion(home, variant)}")
    contents = kit.unseal(file.read_bytes(), "model", variant, form=FORM)
    meta = {**contents.meta, "strength": contents.meta["strength"] + stronger}
    path.write_bytes(kit.seal("model", variant, meta, contents.payload, form=FORM))
    return path


def test_a_model_from_elsewhere_becomes_champion_only_by_the_gate(running: Home, tmp_path: Path) -> None:
    """Imported once, nominated by hand, tested like any candidate, promoted on evidence; one command rolls it back."""
    first, other = champion(running), champion(running, "hex8_3p")
    file = foreign(running, tmp_path / "theirs.pth")

    code, output = running.run("models", "import", str(file), "--variant", "hex8_2p", "--json")
    assert code == 0, output
    made = json.loads(output[output.index("{") :])["model"]
    _, again = running.run("models", "import", str(file), "--variant", "hex8_2p")
    assert (champion(running), linked(running)) == (first, {first}), "importing changes no champion"
    code, output = running.run("models", "promote", made[:12])
    assert code == 0, output
    until(lambda: champion(running) == made and running.lines()["hex8_2p"].stage == "collecting", PATIENCE_SECONDS)
    until(lambda: linked(running) == {made}, PATIENCE_SECONDS)
    code, text = running.run("models", "show", made[:12])
    assert running.run("models", "rollback", "hex8_2p", "--reason", "it was a trial")[0] == 0
    until(lambda: linked(running) == {first}, PATIENCE_SECONDS)
    until(lambda: running.lines()["hex8_2p"].stage == "collecting", PATIENCE_SECONDS)

    assert "was imported before" in again
    assert len(events_of(running, "model.imported")) == 1
    [event] = [event for event in events_of(running, "model.promoted") if event["model"] == made]
    assert event["evidence"]["blocks"] >= 16
    assert f"champion before: {first}" in text
    [back] = events_of(running, "model.rolled_back")
    assert (back["model"], back["to"], back["reason"]) == (made, first, "it was a trial")
    assert [row["state"] for row in listed(running) if row["model"] in (made, first)] == ["champion", "rolled_back"]
    assert (champion(running, "hex8_3p"), linked(running, "hex8_3p")) == (other, {other})


def listed(home: Home, variant: str = "hex8_2p") -> list[dict[str, Any]]:
    """The output of ``models list`` as JSON."""
    code, output = home.run("models", "list", "--variant", variant, "--json")
    assert code == 0, output
    rows: list[dict[str, Any]] = json.loads(output)
    return rows


def states(home: Home) -> list[tuple[str, str]]:
    """The models of a line and their states; ratings may come later than the match that they follow."""
    return [(row["model"], row["state"]) for row in listed(home)]


@pytest.mark.parametrize("kind", ["hostile", "nan", "text", "of another variant", "damaged"])
def test_a_bad_file_is_refused_by_name_and_changes_nothing(running: Home, tmp_path: Path, kind: str) -> None:
    """Exit 1 with the reason; no event, no model, the same champion."""
    trace = tmp_path / "was here"
    path = foreign(running, tmp_path / "theirs.pth", float("nan") if kind == "nan" else 200.0)
    match kind:
        case "hostile":
            path.write_bytes(pickle.dumps(Hostile(str(trace))))
        case "text":
            path.write_text("not a model")
        case "of another variant":
            foreign(running, path, 200.0, "hex8_3p")
        case "damaged":
            path.write_bytes(path.read_bytes()[:-9])
    before = (champion(running), events_of(running, "model.imported"), states(running))

    code, output = running.run("models", "import", str(path), "--variant", "hex8_2p")

    assert code == 1, output
    assert f"{path}: " in output
    assert (champion(running), events_of(running, "model.imported"), states(running)) == before
    assert not trace.exists()


class Hostile:
    """Creates a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (self.path,)


def test_a_model_is_checked_on_demand(running: Home) -> None:
    """By a worker of the running node."""
    code, output = running.run("models", "verify", "hex8_3p")

    assert code == 0, output
    assert f"{champion(running, 'hex8_3p')[:10]} of hex8_3p is sound: verified on a" in output


def test_a_match_by_hand_has_bounds_and_is_logged(running: Home) -> None:
    """A match by hand has bounds, leaves the champion alone and is kept in the log of blocks."""
    code, output = running.run("match", "hex8_3p", "random", "--blocks", "20")

    assert code == 0, output
    assert f"hex8_3p: {champion(running, 'hex8_3p')[:10]} against random, 20 blocks" in output
    assert "gain over the opponent +" in output


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("models", "rollback", "hex8_3p"), 2, "hex8_3p has no earlier champion to go back to"),
        (("models", "rollback", "hex9_2p"), 2, "unknown variant 'hex9_2p'; known: hex8_2p, hex8_3p"),
        (("models", "rollback"), 2, "argument missing:  ringrift models rollback VARIANT"),
        (("models", "show", "zz"), 2, "unknown model 'zz'"),
        (("models", "promote", "hex8_3p"), 1, "it is the champion"),
        (("models", "import", "/nowhere", "--variant", "hex8_2p"), 2, "file not found: /nowhere"),
        (("models", "import", "/nowhere"), 2, "name the variant"),
        (("models", "import", "/etc/hostname", "--variant", "hex9_2p"), 2, "unknown variant 'hex9_2p'"),
        (("promotions", "--without", "a"), 2, "--without takes node=NAME, not 'a'"),
        (("match", "hex8_3p", "hex8_2p"), 2, "plays hex8_3p, but"),
        (("match", "nobody", "random"), 2, "unknown model 'nobody'"),
    ],
)
def test_impossible_commands_are_refused_by_name(
    running: Home, arguments: tuple[str, ...], code: int, text: str
) -> None:
    """Each has the exit code of wrong input or of a rejecting gate."""
    exit_code, output = running.run(*arguments)

    assert text in output
    assert exit_code == code


def test_without_a_node_the_command_does_the_check_itself(played: Home) -> None:
    """It says so, and no request remains."""
    code, output = played.run("models", "verify", "hex8_2p")

    assert code == 0
    assert "verify hex8_2p: no node runs; this command does it itself" in output
    assert played.ask("SELECT state FROM jobs WHERE kind = 'verify' ORDER BY number DESC LIMIT 1") == [("done",)]
