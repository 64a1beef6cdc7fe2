"""A run with a time limit ends with its proof, and one that is stopped on the way leaves nothing of it behind."""

import json
import signal

from e2e.processes import QUICK, Home, reached

SLOW = QUICK + "[work.params]\nfake_slow_seconds = 60.0\nfake_stage = 'match'\n"
LIVE = "SELECT count(*) FROM jobs WHERE state IN ('ready', 'claimed') AND key LIKE 'match:proof:%'"


def test_a_timed_run_proves_what_it_claims(home: Home) -> None:
    """Each champion beats generation 0 and the weakest baseline in 256 games outside any gate; exit 0 confirms it."""
    code, output = home.run("run", "--minutes", "0.2", "--variants", "hex8_2p,hex8_3p")

    report = json.loads((home.path / "report.json").read_text())
    findings = report["proof"]
    assert code == (0 if all(finding["met"] for finding in findings) else 3), output[-3000:]
    games = {"hex8_2p": 256, "hex8_3p": 258}
    assert [(finding["variant"], finding["n"]) for finding in findings] == [
        item for item in games.items() for _ in "ab"
    ]
    for finding in findings:
        promoted = [decision["model"] for decision in report["decisions"][finding["variant"]] if decision["promoted"]]
        assert finding["opponent"] in (promoted[0], "random")
        assert finding["model"] == promoted[-1]
        assert finding["met"] == (finding["lower"] > finding["limit"])
    assert home.ask(LIVE) == [(0,)]


def test_a_run_without_progress_exits_with_3(home: Home) -> None:
    """Exit 3 with the missed claim and the reason, and with all three reports."""
    (home.path / "ringrift.toml").write_text(SLOW)

    code, output = home.run("run", "--minutes", "0.05", "--variants", "hex8_2p")

    assert code == 3, output
    assert "NOT PROVEN: 2 of 2 claims missed" in output
    assert "no candidate has passed the gate yet" in output
    assert "NOT PROVEN" in (home.path / "report.html").read_text()
    assert not json.loads((home.path / "report.json").read_text())["proof"][0]["met"]


def test_a_proof_that_is_stopped_leaves_no_match_behind(played: Home) -> None:
    """A signal during its match exits 130 without a verdict; the next run would only play for an old champion."""
    (played.path / "ringrift.toml").write_text(SLOW)
    process = played.start("run", "--minutes", "0.05", "--variants", "hex8_2p")
    reached(process, lambda: played.ask(LIVE) > [(0,)])

    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=20)

    assert process.returncode == 130, output
    assert "PROVEN" not in output
    assert played.ask(LIVE) == [(0,)]
    assert played.ask("SELECT count(*) FROM jobs WHERE state = 'claimed'") == [(0,)]
    assert played.orphans() == []
