"""RINGRIFT_EXTRACTED_LOOPS=false: the duties of the documented loops do not start, and what is off is named."""

import signal

import pytest

from e2e.processes import PATIENCE_SECONDS, Home, reached
from e2e.test_launch import SECONDS_MAX, start, until

OFF = "off by settings on node a: fill, import_models, rate ("


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loops are off, and a variable is set that nothing reads yet."""
    monkeypatch.setenv("RINGRIFT_EXTRACTED_LOOPS", "false")
    monkeypatch.setenv("RINGRIFT_RAFT_ENABLED", "true")


@pytest.mark.usefixtures("variables")
def test_a_run_plays_and_rates_nothing_and_says_what_is_off(home: Home) -> None:
    """The first model is made and no game is played; ``status`` and ``why`` name the daemons; leases still expire."""
    process = home.start("run", "--iterations", "0", "--variants", "hex8_2p")
    reached(process, lambda: home.has("SELECT 1 FROM records WHERE kind = 'line'"))
    reached(process, lambda: home.lines()["hex8_2p"].stage == "collecting")

    texts = [home.run("status")[1], home.run("why", "hex8_2p")[1]]
    daemons = home.run("daemons", "--node", "a")[1]
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=PATIENCE_SECONDS)

    assert all(OFF in text for text in texts), texts
    assert "RINGRIFT_RAFT_ENABLED has no effect yet; it comes with: a store on several machines" in output
    assert home.ask("SELECT count(*) FROM jobs WHERE kind IN ('play', 'rate')") == [(0,)]
    text = " ".join(daemons.split())
    assert all(pair in text for pair in ("fill resting", "rate resting", "rescue running", "pipeline running")), daemons


def test_with_the_variable_true_they_run(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The documented line lets them run, as they do without it, and nothing is off."""
    monkeypatch.setenv("RINGRIFT_EXTRACTED_LOOPS", "true")
    launched = start(home, "--all")
    printed = until(launched, ["node a (full) runs", "training:", "evaluation:", "resources:"])
    launched.send_signal(signal.SIGTERM)
    launched.communicate(timeout=SECONDS_MAX)

    running = {name.strip(",") for line in printed for name in line.split()}
    assert {"fill", "rate", "import_models", "rescue"} <= running
    assert not [line for line in printed if "off by settings" in line]


@pytest.mark.usefixtures("variables")
def test_the_launcher_does_not_start_them_either(home: Home) -> None:
    """It prints what is off, and the variable that has no effect yet, and runs the rest."""
    launched = start(home, "--all")
    printed = until(launched, ["RINGRIFT_RAFT_ENABLED has no effect yet", "node a (full) runs", "off by settings:"])
    launched.send_signal(signal.SIGTERM)
    launched.communicate(timeout=SECONDS_MAX)

    assert printed[-1].strip() == "off by settings: fill, import_models, rate"
    running = {name.strip(",") for line in printed for name in line.split()}
    assert {"rescue", "pipeline"} <= running
    assert not [line for line in printed if line.strip().startswith("training:") and "fill" in line.split()]
