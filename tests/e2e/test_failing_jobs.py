"""A workload that raises is explained by file and line wherever a person looks; jobs can be stopped and retried."""

import json
import signal
from pathlib import Path
from textwrap import dedent

import pytest

from e2e.processes import QUICK, Home, reached
from wait import until

GAME = """
    from ringrift.workload.fake import Fake

    class Broken(Fake):
        name = "broken"

        def run(self, spec, context):
            if spec.stage == "play":
                print("plays with seed", spec.seed)
                search({"root": 1} if MENDED else {})
            return super().run(spec, context)

    MENDED = False

    def search(tree):
        return tree["root"]
"""
BUG = "broken.py"
LINE = next(number for number, line in enumerate(GAME.splitlines(), 1) if 'tree["root"]' in line) - 1


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python plug-in with a bug, installed in a folder of its own."""
    folder = tmp_path / "site"
    (folder / "broken-1.0.dist-info").mkdir(parents=True)
    (folder / BUG).write_text(dedent(GAME).lstrip())
    (folder / "broken-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (folder / "broken-1.0.dist-info" / "entry_points.txt").write_text("[ringrift.workloads]\nbroken = broken:Broken\n")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder / BUG


def succeeded(home: Home, *words: str) -> str:
    """The output of a command that must succeed."""
    code, output = home.run(*words)
    assert code == 0, output
    return output


def test_a_raise_is_shown_with_file_and_line(home: Home, plugin: Path) -> None:
    """In jobs show, jobs logs, logs, why and the live view; once it is mended, the same job is tried again and done."""
    (home.path / "ringrift.toml").write_text(QUICK.replace('"fake"', '"broken"'))
    place = f'File "{plugin}", line {LINE}, in search'
    run = home.start("run", "--iterations", "1", "--variants", "hex8_2p", "--plain")
    reached(run, lambda: home.has("SELECT 1 FROM jobs WHERE kind = 'play' AND state = 'dead'"))

    [job, *_] = json.loads(succeeded(home, "jobs", "--state", "dead", "--json"))
    shown = succeeded(home, "jobs", "show", job["id"])
    assert place in shown
    assert "given up" in shown
    assert "plays with seed" in shown
    facts = json.loads(succeeded(home, "jobs", "show", job["id"], "--json"))["facts"]
    assert len(facts["failures"]) == facts["attempts"] == job["attempts"]
    assert all(place in failure["traceback"] for failure in facts["failures"])
    printed = succeeded(home, "jobs", "logs", job["id"])
    assert printed.count(place) == printed.count("plays with seed") == job["attempts"]
    assert place in succeeded(home, "logs", "--level", "warning", "--job", job["id"])
    logged = [json.loads(line) for line in succeeded(home, "logs", "--json", "-n", "100000").splitlines()]
    assert {line["level"] for line in logged if line["job"] == job["id"]} == {"INFO", "WARNING", "ERROR"}
    assert any(line["event"] == "work.finished" and line["node"] for line in logged)
    assert any(line["event"] == "verdict" for line in logged)
    assert BUG in succeeded(home, "why", "hex8_2p")
    run.send_signal(signal.SIGINT)
    assert BUG in run.communicate(timeout=60)[0]

    plugin.write_text(plugin.read_text().replace("MENDED = False", "MENDED = True"))
    again = json.loads(succeeded(home, "jobs", "retry", job["id"], "--json"))["new"]
    run = home.start("run", "--iterations", "1", "--variants", "hex8_2p", "--plain")
    reached(run, lambda: home.has("SELECT 1 FROM every_job WHERE id = ? AND state = 'done'", again))
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=60)
    assert "finished in" in succeeded(home, "jobs", "show", again)
    assert succeeded(home, "jobs", "logs", again).startswith("plays with seed")


def test_a_running_job_is_stopped(home: Home) -> None:
    """The holder of a cancelled job kills it; other jobs go on, and following output and log ends with Ctrl-C."""
    (home.path / "ringrift.toml").write_text(f"{QUICK}[work.params]\nfake_slow_seconds = 50\nfake_stage = 'play'\n")
    run = home.start("run", "--iterations", "1", "--variants", "hex8_2p", "--plain")
    reached(run, lambda: home.has("SELECT 1 FROM jobs WHERE kind = 'play' AND state = 'claimed' AND progress > 0"))
    followers = [home.start("logs", "-f")]
    [(job,)] = home.ask("SELECT id FROM jobs WHERE kind = 'play' AND state = 'claimed' LIMIT 1")
    followers.append(home.start("jobs", "logs", "-f", job))

    assert "cancelled job" in succeeded(home, "jobs", "cancel", job, "--reason", "too slow")
    code, output = home.run("jobs", "cancel", job)
    assert (code, "cannot be cancelled" in output) == (2, True)
    reached(run, lambda: "lease is lost" in succeeded(home, "logs", "--job", job))
    assert home.has("SELECT 1 FROM log WHERE name = 'work.buried' AND CAST(body AS TEXT) LIKE '%too slow%'")
    assert home.ask("SELECT state FROM jobs WHERE id = ?", job) == [("cancelled",)]
    followers[1].communicate(timeout=30)
    assert followers[1].returncode == 0  # its job has ended
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=60)
    until(lambda: followers[0].poll() is None)
    followers[0].send_signal(signal.SIGINT)
    output, _ = followers[0].communicate(timeout=30)
    assert followers[0].returncode == 0
    assert "lease is lost" in output
