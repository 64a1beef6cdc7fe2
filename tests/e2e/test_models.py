"""Models change hands by real processes: whoever opens a champion's link gets a whole one, whatever is killed."""

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
from ringrift.daemons.point import names
from waiting import until

VARIANTS = ("hex8_2p", "hex8_3p")
LOOK_SECONDS = 0.002
# The nth promotion of the process, once it is decided, arms the place where the process dies.
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
    "pipeline.before_step", "pipeline.after_step", "bus.before_advance", "bus.after_advance", "store.before_commit",
    "store.after_commit", "work.after_claim", "sync.before_copy", "sync.after_copy", "desk.before_finish",
    "desk.after_finish", "point.before_link", "point.after_link",
)  # fmt: skip
"""Before and after each step of a promotion, in the order in which it passes them."""


def told(home: Home, name: str) -> list[dict[str, Any]]:
    """Every event of *name* in the log."""
    return [json.loads(body) for (body,) in home.ask("SELECT body FROM log WHERE name = ? ORDER BY position", name)]


def was_made_champion(home: Home, variant: str, model: str) -> bool:
    """Whether the log says that *model* was checked and then became the champion of *variant*."""
    query = """SELECT min(position) FROM log WHERE name = ? AND json_extract(body, '$.variant') = ?
        AND json_extract(body, '$.model') = ?"""
    [(checked,)] = home.ask(query, "model.verified", variant, model)
    [(crowned,)] = home.ask(query, "model.promoted", variant, model)
    return checked is not None and crowned is not None and checked < crowned


@contextmanager
def watched(home: Home) -> Iterator[tuple[list[str], set[tuple[str, str]]]]:
    """Open every link again and again all the while: what was wrong, and which models were seen for which variant."""
    over, wrong, seen = threading.Event(), list[str](), set[tuple[str, str]]()

    def watch() -> None:
        links = [(variant, home.path / "models" / name) for variant in VARIANTS for name in names(variant)]
        there = set[Path]()
        while not over.wait(LOOK_SECONDS):
            for variant, link in links:
                try:
                    data = link.read_bytes()
                except FileNotFoundError:
                    if link in there:
                        wrong.append(f"{link.name} led nowhere")
                    continue
                there.add(link)
                model = hashlib.sha256(data).hexdigest()
                if (variant, model) not in seen:
                    seen.add((variant, model))
                    if not was_made_champion(home, variant, model):
                        wrong.append(f"{link.name} led to {model}, which never was champion")

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield wrong, seen
    finally:
        over.set()
        watcher.join()


def assert_promoted_once(home: Home) -> None:
    """Each promotion is one event, one decision and one step of its line's count."""
    events = Counter((said["variant"], said["model"]) for said in told(home, "model.promoted"))
    rows = [json.loads(body) for (body,) in home.ask("SELECT body FROM records WHERE kind = 'decision'")]
    decisions = Counter((one["variant"], one["model"]) for one in rows if one["promoted"])
    assert events == decisions
    assert set(events.values()) <= {1}
    for variant, line in home.lines().items():
        proven = [said for said in told(home, "model.promoted") if said["variant"] == variant and said["evidence"]]
        assert line.iteration == len(proven)


def start(home: Home, place: str, nth: int) -> "subprocess.Popen[str]":
    """Start a run that dies at *place* in its *nth* promotion."""
    program = PROGRAM.format(place=place, nth=nth)
    return home.launch(program, "run", "--iterations", "0", "--variants", ",".join(VARIANTS))


@pytest.mark.timeout(200)
def test_a_kill_at_any_step_of_a_promotion(home: Home, gone: Callable[[Home], bool]) -> None:
    """A reader always loads a champion that was checked, of its own variant; each promotion counts once."""
    with watched(home) as (wrong, seen):
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
    assert wrong == []
    for variant, line in home.lines().items():
        assert (variant, line.champion) in seen, "the last champion is linked before the run ends"
        assert len([one for one in seen if one[0] == variant]) > 3


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home whose line has had two promotions; tests get copies."""
    home = Home(tmp_path_factory.mktemp("twice") / "home")
    code, output = home.run("run", "--iterations", "2", "--variants", "hex8_2p")
    assert code == 0, output
    return home


@pytest.fixture
def promoted(twice: Home, tmp_path: Path) -> Iterator[Home]:
    """A home whose line has had two promotions, with nothing of it left running afterwards."""
    home = twice.copied(tmp_path / "promoted")
    yield home
    home.clear()


@pytest.mark.parametrize(("place", "done"), [("store.before_commit", False), ("store.after_commit", True)])
def test_a_rollback_that_is_killed_has_happened_or_not(promoted: Home, place: str, done: bool) -> None:
    """Pointer, states, decision, event and job are there together or not at all, and the next start goes on."""
    home = promoted
    line = home.lines()["hex8_2p"]
    wanted = f"distribute:hex8_2p:{line.previous}"

    process = home.start("models", "rollback", "hex8_2p", failpoint=(place, 1))
    output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == EXIT_FAILPOINT, output

    rows = [json.loads(body) for (body,) in home.ask("SELECT body FROM records WHERE kind = 'decision'")]
    states = {json.loads(body)["model"]: json.loads(body)["state"]
              for (body,) in home.ask("SELECT body FROM records WHERE kind = 'model'")}  # fmt: skip
    assert home.lines()["hex8_2p"].champion == (line.previous if done else line.champion)
    assert len(told(home, "model.rolled_back")) == done
    assert len([one for one in rows if one["kind"] == "rollback"]) == done
    assert (states[str(line.champion)], states[str(line.previous)]) == (
        ("rolled_back", "champion") if done else ("champion", "retired")
    )
    assert home.ask("SELECT state FROM jobs WHERE key = ? AND state = 'ready'", wanted) == [("ready",)] * done
    code, output = home.run("run", "--iterations", "3", "--variants", "hex8_2p")
    assert code == 0, output[-2000:]
    assert linked(home) == {champion(home)}
    assert_promoted_once(home)


# -- by hand, while a coordinator runs ---------------------------------------------------------------------------------

# It collects for ever, so that only what a person does moves the line.
PATIENT = SHARP.replace("games_per_export = 60", "games_per_export = 1000000")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A home whose loop runs and whose lines only collect."""
    home = Home(tmp_path_factory.mktemp("models") / "home", PATIENT)
    process = home.start("run", "--iterations", "0", "--variants", ",".join(VARIANTS))
    try:
        links = [home.path / "models" / name for variant in VARIANTS for name in names(variant)]
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
    """What the links of *variant* lead to."""
    return {hashlib.sha256((home.path / "models" / name).read_bytes()).hexdigest() for name in names(variant)}


def foreign(home: Home, path: Path, stronger: float = 300.0, variant: str = "hex8_2p") -> Path:
    """A file with a model that comes from elsewhere: the champion, made *stronger*."""
    shelf = champion(home, variant)[:2]
    [file, *_] = (home.path / "blobs").glob(f"*/{shelf}/{champion(home, variant)}")
    body = json.loads(file.read_bytes())
    del body["checksum"]
    body["strength"] += stronger

    def written(value: dict[str, Any]) -> bytes:
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()

    path.write_bytes(written({**body, "checksum": hashlib.sha256(written(body)).hexdigest()}))
    return path


def test_a_model_from_elsewhere_becomes_champion_only_by_the_gate(running: Home, tmp_path: Path) -> None:
    """Imported once, put up by hand, tested like every candidate, promoted on evidence; one command takes it back."""
    first, other = champion(running), champion(running, "hex8_3p")
    file = foreign(running, tmp_path / "theirs.pth")

    code, output = running.run("models", "import", str(file), "--variant", "hex8_2p", "--json")
    assert code == 0, output
    made = json.loads(output[output.index("{") :])["model"]
    _, again = running.run("models", "import", str(file), "--variant", "hex8_2p")
    assert (champion(running), linked(running)) == (first, {first}), "nothing plays with it by that"
    code, output = running.run("models", "promote", made[:12])
    assert code == 0, output
    until(lambda: champion(running) == made and running.lines()["hex8_2p"].stage == "collecting", PATIENCE_SECONDS)
    until(lambda: linked(running) == {made}, PATIENCE_SECONDS)
    code, shown = running.run("models", "show", made[:12])
    assert running.run("models", "rollback", "hex8_2p", "--reason", "it was a trial")[0] == 0
    until(lambda: linked(running) == {first}, PATIENCE_SECONDS)
    until(lambda: running.lines()["hex8_2p"].stage == "collecting", PATIENCE_SECONDS)

    assert "is known already" in again
    assert len(told(running, "model.imported")) == 1
    [said] = [one for one in told(running, "model.promoted") if one["model"] == made]
    assert said["evidence"]["blocks"] >= 16
    assert f"champion before: {first}" in shown
    [back] = told(running, "model.rolled_back")
    assert (back["model"], back["to"], back["reason"]) == (made, first, "it was a trial")
    assert [row["state"] for row in listed(running) if row["model"] in (made, first)] == ["champion", "rolled_back"]
    assert (champion(running, "hex8_3p"), linked(running, "hex8_3p")) == (other, {other})


def listed(home: Home, variant: str = "hex8_2p") -> list[dict[str, Any]]:
    """What ``models list`` says as JSON."""
    code, output = home.run("models", "list", "--variant", variant, "--json")
    assert code == 0, output
    rows: list[dict[str, Any]] = json.loads(output)
    return rows


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
    before = (champion(running), told(running, "model.imported"), listed(running))

    code, output = running.run("models", "import", str(path), "--variant", "hex8_2p")

    assert code == 1, output
    assert f"{path}: " in output
    assert (champion(running), told(running, "model.imported"), listed(running)) == before
    assert not trace.exists()


class Hostile:
    """What makes a file when it is unpickled by somebody who trusts it."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (self.path,)


def test_a_model_is_checked_on_demand(running: Home) -> None:
    """By a worker of the running node."""
    code, output = running.run("models", "verify", "hex8_3p")

    assert code == 0, output
    assert f"{champion(running, 'hex8_3p')[:10]} of hex8_3p is sound: checked on a" in output


def test_two_players_meet(running: Home) -> None:
    """A match by hand has bounds, leaves the champion alone and is kept in the log of blocks."""
    code, output = running.run("match", "hex8_3p", "random", "--blocks", "20")

    assert code == 0, output
    assert f"hex8_3p: {champion(running, 'hex8_3p')[:10]} against random, 20 blocks" in output
    assert "Elo +" in output


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("models", "rollback", "hex8_3p"), 2, "hex8_3p has no earlier champion to go back to"),
        (("models", "rollback", "hex9_2p"), 2, "unknown line 'hex9_2p'; known: hex8_2p, hex8_3p"),
        (("models", "rollback"), 2, "which one?  ringrift models rollback VARIANT"),
        (("models", "show", "zz"), 2, "unknown model 'zz'"),
        (("models", "promote", "hex8_3p"), 1, "it is the champion"),
        (("models", "import", "/nowhere", "--variant", "hex8_2p"), 2, "/nowhere is no file"),
        (("models", "import", "/nowhere"), 2, "of which variant?"),
        (("models", "import", "/etc/hostname", "--variant", "hex9_2p"), 2, "unknown line 'hex9_2p'"),
        (("promotions", "--without", "a"), 2, "--without takes node=NAME, not 'a'"),
        (("match", "hex8_3p", "hex8_2p"), 2, "plays hex8_3p and"),
        (("match", "nobody", "random"), 2, "unknown model 'nobody'"),
    ],
)
def test_what_cannot_be_done_is_said(running: Home, arguments: tuple[str, ...], code: int, text: str) -> None:
    """By name, with the exit code of wrong input or of a gate that says no."""
    found, output = running.run(*arguments)

    assert text in output
    assert found == code


def test_without_a_node_a_check_is_not_waited_for(played: Home) -> None:
    """It says that nobody is there, and stays asked for."""
    code, output = played.run("models", "verify", "hex8_2p")

    assert code == 1
    assert "nobody is there to do it" in output
    assert played.ask("SELECT state FROM jobs WHERE kind = 'verify' ORDER BY number DESC LIMIT 1") == [("ready",)]
