"""The main command, as a new user runs it."""

import json
import os
import signal
from itertools import pairwise

import pytest

from e2e.processes import FAKE, PATIENCE_SECONDS, SHARP, Home, reached

BUSY = "SELECT 1 FROM jobs WHERE kind = 'play' AND state = 'claimed'"


def test_a_run_ends_by_itself_with_its_evidence(home: Home) -> None:
    """Three promotions for each of two variants end with exit 0; the report has the evidence and Elo of each."""
    # With few blocks and little of the error budget most tests end undecided: then chance says how long a run lasts.
    patient = SHARP.replace("blocks_max = 64", "blocks_max = 256") + "[policy.budget]\nshare = 0.5\nstart = 1.0\n"
    (home.path / "ringrift.toml").write_text(patient)

    code, output = home.run("run", "--iterations", "3", "--variants", "hex8_2p,hex8_3p", seconds=100.0)

    report = json.loads((home.path / "report.json").read_text())

    assert code == 0, output
    for variant in ("hex8_2p", "hex8_3p"):
        promoted = [decision for decision in report["decisions"][variant] if decision["promoted"]]
        assert [decision["generation"] for decision in promoted] == [0, 1, 2, 3]
        assert all(decision["evidence"]["llr"] >= decision["evidence"]["upper"] for decision in promoted[1:])
        assert all(decision["evidence"]["blocks"] >= 16 for decision in promoted[1:])
        assert all(later["previous"] == decision["model"] for decision, later in pairwise(promoted))
        assert all(decision["model"][:10] in output for decision in promoted)
        assert {decision["model"] for decision in promoted} <= {row["model"] for row in report["elo"][variant]}


def test_sync_and_distribute_really_copy(once: Home) -> None:
    """Every node that plays has the champion's bytes, and every kept batch lies on two nodes."""
    line = once.lines()["hex8_2p"]

    copies = {
        batch.blob: len(list((once.path / "blobs").glob(f"*/{batch.blob[:2]}/{batch.blob}"))) for batch in line.window
    }

    assert line.champion is not None
    assert len(list((once.path / "blobs").glob(f"*/{line.champion[:2]}/{line.champion}"))) == 3
    assert copies
    assert min(copies.values()) >= 2


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_in_good_order_and_the_next_run_goes_on(home: Home, number: int, code: int) -> None:
    """After a signal no job is claimed, no worker is left, and the next run completes the interrupted one."""
    process = home.start("run", "--iterations", "40", "--variants", "hex8_2p")
    reached(process, lambda: home.has(BUSY) and home.lines()["hex8_2p"].counts.games > 0)

    process.send_signal(number)
    output, _ = process.communicate(timeout=PATIENCE_SECONDS)

    before = home.lines()["hex8_2p"].iteration
    assert process.returncode == code, output
    assert '(stopped early; "ringrift run" goes on)' in output
    assert home.ask("SELECT count(*) FROM jobs WHERE state = 'claimed'") == [(0,)]
    assert home.orphans() == []
    assert home.run("run", "--iterations", str(before + 1), "--variants", "hex8_2p")[0] == 0


def test_a_second_coordinator_is_refused(home: Home) -> None:
    """While one process coordinates a store, a second one gets an error that names the holder, and changes nothing."""
    first = home.start("run", "--iterations", "0", "--variants", "hex8_2p")
    reached(first, lambda: home.has("SELECT 1 FROM records WHERE kind = 'line'"))

    code, output = home.run("run", "--variants", "square8_2p")

    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=PATIENCE_SECONDS)
    assert code == 1
    assert "another run works here (pid " in output
    assert "square8_2p" not in home.lines()


def test_status_shows_lines_jobs_and_nodes(home: Home) -> None:
    """Even when no node is running, status shows lines, jobs and nodes; without a store it reports its absence."""
    early, absent = home.run("status")
    home.run("run", "--iterations", "1", "--variants", "hex8_2p", "--report", str(home.path / "mine.json"))

    code, text = home.run("status")
    _, machine = home.run("status", "--json")

    state = json.loads(machine)
    assert early == 1
    assert "no store at" in absent
    assert code == 0, text
    assert "problems: none" in text
    assert [line["stage"] for line in state["lines"]] == ["resting"]
    assert {node["id"] for node in state["nodes"]} == {"a", "a-2", "a-3"}
    assert sum(state["tally"]["train"].values()) >= 2
    assert (home.path / "mine.json").exists()


def test_why_names_the_gate(home: Home) -> None:
    """Queried from another process while the loop runs, why names the gate with value, limit and since when."""
    (home.path / "ringrift.toml").write_text(FAKE + "[work.params]\nfake_slow_seconds = 30.0\nfake_stage = 'play'\n")
    process = home.start("run", "--iterations", "0", "--variants", "hex8_2p")
    reached(process, lambda: home.has(BUSY) and home.lines()["hex8_2p"].stage == "collecting")

    code, output = home.run("why", "hex8_2p")
    _, machine = home.run("why", "hex8_2p", "--json")

    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_SECONDS + 10)
    waits = json.loads(machine)["waits_on"]
    assert code == 0, output
    assert " collecting since " in output
    assert output.startswith("hex8_2p is collecting: 0 of 400 games since the last export, since ")
    assert (waits["gate"], waits["allowed"], waits["value"], waits["limit"]) == ("collecting", False, 0, 400)
    assert waits["since"] > 0


def test_every_file_of_a_home_is_private(home: Home) -> None:
    """Under an open umask folders have the mode 0700 and files 0600: store, blobs, logs, locks and the report."""
    before = os.umask(0o022)
    try:
        code, output = home.run("run", "--iterations", "1", "--variants", "hex8_2p")
    finally:
        os.umask(before)
    assert code == 0, output

    paths = [path for path in home.path.rglob("*") if not path.is_symlink() and path.name != "ringrift.toml"]
    open_paths = {str(path.relative_to(home.path)): oct(path.stat().st_mode & 0o777) for path in paths}
    private = {True: "0o700", False: "0o600"}
    assert {name: mode for name, mode in open_paths.items() if mode != private[(home.path / name).is_dir()]} == {}
    assert {"report.json", "report.html", "logs/ringrift.log", "coordination/coordinator.lock"} <= open_paths.keys()
