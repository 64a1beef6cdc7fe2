"""``ringrift run --over-wire``: the same run with a coordinator that does no games and workers in other processes."""

import json
import signal

from e2e.processes import PATIENCE_SECONDS, Home, reached
from e2e.test_up import batches_of, members
from wait import until

VARIANT = "hex8_2p"


def test_a_run_over_the_wire_learns_proves_and_leaves_nothing_running(home: Home) -> None:
    """Every game and model comes from a worker; the report is that of any run, with its proof."""
    minutes = ("--minutes", "0.15", "--variants", VARIANT, "--nodes", "2")
    code, output = home.run("run", "--over-wire", *minutes, seconds=110.0)

    report = json.loads((home.path / "report.json").read_text())
    trained = home.ask("SELECT DISTINCT json_extract(body, '$.node') FROM log WHERE name = 'training.finished'")
    assert code == (0 if all(finding["met"] for finding in report["proof"]) else 3), output[-3000:]
    assert "2 workers over HTTP" in output
    assert len(report["decisions"][VARIANT]) >= 2, output[-3000:]
    assert report["proof"]
    assert all(finding["n"] for finding in report["proof"])
    assert batches_of(home) == {"a-w1", "a-w2"}
    assert {row[0] for row in trained} <= {"a-w1", "a-w2"}
    assert "a-w1: worker a-w1 has left" in output
    assert home.orphans() == []
    until(lambda: members(home) == [], PATIENCE_SECONDS)


def test_a_run_over_the_wire_that_is_stopped_goes_on(played: Home) -> None:
    """Ctrl-C exits 130 as ever, and ends the workers.  Runs of both kinds continue each other on one store."""
    home, before = played, played.lines()[VARIANT].counts.games
    process = home.start("run", "--over-wire", "--minutes", "30", "--variants", VARIANT, "--nodes", "1")
    reached(process, lambda: home.lines()[VARIANT].counts.games > before)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=PATIENCE_SECONDS)

    assert process.returncode == 130, output[-3000:]
    assert home.ask("SELECT count(*) FROM jobs WHERE state = 'claimed'") == [(0,)]
    until(lambda: members(home) == [], PATIENCE_SECONDS)
    before = home.lines()[VARIANT].counts.games
    again = home.start("run", "--minutes", "30", "--variants", VARIANT)
    reached(again, lambda: home.lines()[VARIANT].counts.games > before)
    again.send_signal(signal.SIGINT)
    again.communicate(timeout=PATIENCE_SECONDS)
