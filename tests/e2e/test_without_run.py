"""Without a run: commands do their jobs themselves and take back what they asked for; a node works by itself."""

import asyncio
import hashlib
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import ringrift
from e2e.processes import PATIENCE_SECONDS, Home, reached
from ringrift.jobs import Match, Purpose
from ringrift.kernel.ids import seed_of
from wait import until

SLOW = ("--set", "work.params.fake_slow_seconds=20")
LIVE = "SELECT key FROM jobs WHERE state IN ('ready', 'claimed') AND key LIKE 'match:operator:%'"
CLAIMED = "SELECT key FROM jobs WHERE state = 'claimed' AND key LIKE 'match:operator:%'"


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A home whose loop has made two promotions and where no node runs."""
    home = Home(tmp_path_factory.mktemp("ran") / "home")
    code, output = home.run("run", "--iterations", "2", "--variants", "hex8_2p", "--nodes", "1")
    assert code == 0, output
    yield home
    home.clear()


def is_tidy(home: Home) -> bool:
    """Whether no job of a command, no record and no folder of its worker is left."""
    nodes = {record["id"] for record in home.records("node")}
    folders = {path.name for path in (home.path / "blobs").iterdir()}
    return not home.ask(LIVE) and nodes == {"a"} and folders == {"a"} and home.orphans() == []


def test_baselines_play_each_other_without_a_node(ran: Home) -> None:
    """The command plays the blocks itself, and says so; nothing of its worker is left."""
    code, output = ran.run("match", "greedy", "random", "--variant", "hex8_2p", "--blocks", "20", "--json")

    assert code == 0, output
    assert "this command does it itself" in output
    result = json.loads(output[output.index("{") :])
    assert (result["model"], result["opponent"], result["blocks"]) == ("greedy", "random", 20)
    assert result["score"]["value"] > 0.5
    assert is_tidy(ran)


def test_a_model_plays_a_baseline_and_is_verified_without_a_node(ran: Home) -> None:
    """The files of the last run are fetched, and the worker's copies are gone afterwards."""
    code, output = ran.run("match", "random", "hex8_2p", "--blocks", "8")
    assert code == 0, output
    assert "random against" in output
    code, output = ran.run("models", "verify", "hex8_2p")

    assert code == 0, output
    assert "is sound: verified on a-command-1" in output
    assert is_tidy(ran)


def test_only_the_jobs_of_the_command_are_done(ran: Home) -> None:
    """Jobs that wait for a node go on waiting: the worker of a command claims its own alone."""
    query = "SELECT count(*) FROM jobs WHERE state = 'ready'"
    before = ran.ask(query)
    code, output = ran.run("match", "greedy", "random", "--variant", "hex8_2p", "--blocks", "4")

    assert code == 0, output
    assert ran.ask(query) == before


def test_a_model_is_exported_and_imported_without_a_node(ran: Home, tmp_path: Path) -> None:
    """The file is the champion, byte for byte; imported for another line it is held by a node that stays."""
    champion, file = ran.lines()["hex8_2p"].champion, tmp_path / "champion.pth"
    code, output = ran.run("models", "export", "hex8_2p", str(file))
    assert code == 0, output
    assert hashlib.sha256(file.read_bytes()).hexdigest() == champion
    assert list(tmp_path.iterdir()) == [file], "nothing is left beside it"

    code, output = ran.run("models", "export", "hex8_2p", str(tmp_path))
    assert (code, "it is a folder" in output) == (2, True), output
    code, output = ran.run("models", "export", "hex8_2p", str(tmp_path / "none" / "x"))
    assert (code, "cannot write" in output) == (2, True), output

    changed = file.read_bytes()
    file.write_bytes(changed[:-1] + bytes([changed[-1] ^ 1]))
    code, output = ran.run("models", "import", str(file), "--variant", "hex8_2p")
    assert code == 1, "a damaged file is refused"
    assert is_tidy(ran), output


def test_a_model_of_another_home_is_imported_without_a_node(ran: Home, tmp_path: Path) -> None:
    """It is held by the node of this home, and can be looked at."""
    other = Home(tmp_path / "other")
    code, output = other.run("run", "--iterations", "1", "--variants", "hex8_2p", "--nodes", "1", "--seed", "77")
    assert code == 0, output
    file = tmp_path / "foreign.pth"
    assert other.run("models", "export", "hex8_2p", str(file))[0] == 0

    code, output = ran.run("models", "import", str(file), "--variant", "hex8_2p", "--json")
    assert code == 0, output
    model = json.loads(output[output.index("{") :])["model"]
    assert (ran.path / "blobs" / "a" / model[:2] / model).exists()
    assert is_tidy(ran)
    assert ran.run("models", "show", model[:12])[0] == 0


@pytest.mark.parametrize(("number", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_command_takes_its_jobs_back(ran: Home, number: int, expected: int) -> None:
    """After Ctrl-C or SIGTERM no job of it waits or runs, and no worker process is left."""
    process = ran.start("match", "greedy", "random", "--variant", "hex8_3p", "--blocks", "32", *SLOW)
    reached(process, lambda: ran.has(CLAIMED))
    process.send_signal(number)
    process.communicate(timeout=PATIENCE_SECONDS)

    assert process.returncode == expected
    until(lambda: is_tidy(ran), PATIENCE_SECONDS)


def test_what_somebody_else_asked_for_too_is_not_taken_back(ran: Home) -> None:
    """A job that was in the queue before the command stays there when the command is interrupted."""
    seed = seed_of(Purpose.OPERATOR, "hex8_3p", "greedy", "random")
    first = {"variant": "hex8_3p", "candidate": "greedy", "baseline": "random", "first": 0, "count": 8, "seed": seed}

    async def enqueue() -> str:
        async with ringrift.connect(ran.path) as client:
            return await client.jobs.enqueue(Match(purpose=Purpose.OPERATOR, **first))

    async def cancel(id: str) -> bool:
        async with ringrift.connect(ran.path) as client:
            return await client.jobs.cancel(id)

    id = asyncio.run(enqueue())
    process = ran.start("match", "greedy", "random", "--variant", "hex8_3p", "--blocks", "32", *SLOW)
    reached(process, lambda: ran.has(CLAIMED) and len(ran.ask(LIVE)) == 4)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_SECONDS)

    assert ran.ask("SELECT id, state FROM jobs WHERE key LIKE 'match:operator:%' AND state = 'ready'") == [
        (id, "ready")
    ]
    assert asyncio.run(cancel(id))


def test_a_failed_command_takes_the_rest_back(played: Home) -> None:
    """One job fails at once, with its reason and without further tries; the others do not stay in the queue."""
    code, output = played.run("match", "greedy", "uct:9", "--variant", "hex8_2p", "--blocks", "64")

    assert code == 1, output
    assert "champion" in output or "uct:9" in output
    assert played.ask(LIVE) == []


def test_an_unknown_baseline_is_refused_before_anything_is_enqueued(ran: Home) -> None:
    """The error lists those that the variant declares."""
    code, output = ran.run("match", "gready", "random", "--variant", "hex8_2p")

    assert code == 2
    assert "known: greedy, random" in output
    assert is_tidy(ran)


def test_a_brake_of_a_person_holds_and_is_named(ran: Home) -> None:
    """On a variant that somebody has paused the command ends at once, says why, and takes its jobs back."""
    assert ran.run("pause", "--variant", "hex8_2p", "--reason", "maintenance")[0] == 0
    code, output = ran.run("match", "greedy", "random", "--variant", "hex8_2p", "--blocks", "8")
    assert ran.run("resume", "--variant", "hex8_2p")[0] == 0

    assert (code, "may not run" in output, "maintenance" in output) == (1, True, True), output
    assert is_tidy(ran)


def test_a_line_that_rests_for_a_run_of_another_is_no_obstacle(home: Home) -> None:
    """A run of one variant lets the others rest; that is no reason not to play a match that a person asks for."""
    for variant in ("hex8_2p", "hex8_3p"):
        assert home.run("run", "--iterations", "1", "--variants", variant, "--nodes", "1")[0] == 0
    code, output = home.run("match", "hex8_2p", "random", "--blocks", "8")

    assert code == 0, output


def test_a_node_that_appears_meanwhile_helps(home: Home) -> None:
    """The command goes on, the node takes jobs of it too, and every block is played once."""
    assert home.run("run", "--iterations", "1", "--variants", "hex8_2p", "--nodes", "1")[0] == 0
    slow = ("--set", "work.params.fake_slow_seconds=1.5")
    match = home.start("match", "greedy", "random", "--variant", "hex8_3p", "--blocks", "48", "--json", *slow)
    reached(match, lambda: home.has(CLAIMED))
    node = home.start("node", *slow)
    output, _ = match.communicate(timeout=PATIENCE_SECONDS)
    stop(node)

    assert match.returncode == 0, output
    result = json.loads(output[output.index("{") :])
    query = "SELECT json_extract(body, '$.node') FROM log WHERE name = ? AND json_extract(body, '$.variant') = ?"
    rows = home.ask(query, "evaluation.blocks_played", "hex8_3p")
    assert result["blocks"] == 48
    assert {node for (node,) in rows} == {"a", "a-command-1"}
    assert len(rows) == 6


def stop(process: "subprocess.Popen[str]") -> str:
    """End *process* by SIGTERM; its output."""
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    return output


def test_a_node_works_until_sigterm_and_leaves_in_good_order(home: Home) -> None:
    """It opens the lines that are named, goes round the loop, ends with 0 and has left; a second one is refused."""
    node = home.start("node", "--variants", "hex8_2p")
    promoted = "SELECT 1 FROM log WHERE name = 'model.promoted' AND json_extract(body, '$.generation') = 1"
    reached(node, lambda: home.has(promoted))
    code, refused = home.run("node")
    output = stop(node)

    assert node.returncode == 0, output
    assert "opens hex8_2p" in output
    assert "generation 1 promoted" in output
    assert "node a has stopped" in output
    assert [record["gone"] for record in home.records("node")] == [True]
    assert code == 1, refused
    assert home.orphans() == []
    before = home.lines()["hex8_2p"].iteration
    again = home.start("node")
    reached(again, lambda: home.lines()["hex8_2p"].iteration > before)
    assert "opens no line" in stop(again), "it goes on with those that are there"


def test_an_offline_rollback_moves_the_link(ran: Home) -> None:
    """While no node runs, the link to the champion is moved by the command itself."""
    link = ran.path / "models" / "canonical_hex8_2p"
    before = ran.lines()["hex8_2p"]
    assert link.resolve().name == before.champion
    code, output = ran.run("models", "rollback", "hex8_2p")

    assert code == 0, output
    assert link.resolve().name == before.previous
    assert (ran.path / "models" / "canonical_hex8_2p.pth").resolve().name == before.previous
    assert [path for path in link.parent.iterdir() if path.name.startswith(".")] == []
