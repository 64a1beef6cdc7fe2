"""From another process: what the daemons of a running cluster do, orders to one of them, and probes."""

import json
import signal

from e2e.processes import Home

LINES_MAX = 2000
"""Lines of a run within which its loop has begun."""


def test_daemons_are_listed_ordered_and_probed_from_outside(home: Home) -> None:
    """One is restarted, stopped and started by a command; health and probes tell the difference, and the end."""
    run = home.start("run", "--iterations", "0", "--variants", "hex8_2p", "--nodes", "2", "--plain")
    assert run.stdout is not None
    assert any("generation 0 is" in run.stdout.readline() for _ in range(LINES_MAX))

    try:
        listed(home)
        ordered(home)
        refused(home)
    finally:
        run.send_signal(signal.SIGTERM)
        run.communicate(timeout=30)

    code, text = home.run("health")
    assert (code, "no node is here" in text) == (1, True), text
    assert home.run("health", "--live")[0] == 1
    code, text = home.run("daemons", "stop", "rate", "--node", "a")
    assert (code, "node a cannot be reached" in text) == (1, True), text
    code, text = home.run("daemons")
    assert (code, "no node is here" in text) == (1, True), text


def daemons(home: Home) -> dict[str, dict[str, dict[str, object]]]:
    """By node and name, what is said of each daemon."""
    code, text = home.run("daemons", "--json")
    assert code == 0, text
    return {node["node"]: {one["name"]: one for one in node["daemons"]} for node in json.loads(text)["nodes"]}


def listed(home: Home) -> None:
    """Both nodes are there with all that they run, and all is well."""
    found = daemons(home)
    assert set(found) == {"a", "a-2"}
    assert {one["state"] for node in found.values() for one in node.values()} == {"running"}
    assert "elect" in found["a"]
    assert "elect" not in found["a-2"]
    code, text = home.run("daemons", "--node", "a")
    assert code == 0
    assert "node a (full)" in text
    assert "a-2" not in text
    code, text = home.run("health", "--ready")
    assert (code, text.strip()) == (0, "ready")


def ordered(home: Home) -> None:
    """The only node that has it carries the order out, and what is shown afterwards is how it is."""
    code, text = home.run("daemons", "restart", "rate")
    assert (code, text.strip()) == (0, "rate on a: restart is done")
    assert daemons(home)["a"]["rate"]["restarts"] == 1

    code, text = home.run("daemons", "stop", "rate")
    assert (code, text.strip()) == (0, "rate on a: stop is done")
    code, text = home.run("health", "--json")
    assert code == 1
    wrong = {part["part"]: part["reason"] for part in json.loads(text)["parts"] if part["status"] == "unknown"}
    assert wrong == {"a/rate": "stopped"}
    assert home.run("health", "--live")[0] == 0, "it is not critical"

    code, text = home.run("daemons", "start", "rate", "--json")
    assert code == 0
    assert json.loads(text)["error"] == ""
    assert daemons(home)["a"]["rate"]["state"] == "running"
    code, text = home.run("events", "tail", "--names", "daemon.ordered,daemon.obeyed")
    assert text.count("daemon.ordered") == text.count("daemon.obeyed") == 3


def refused(home: Home) -> None:
    """What is not there, or not clear, is an error of its own, and nothing is ordered."""
    for words, code, text in (
        (("stop", "dance"), 2, "unknown daemon 'dance'; known: "),
        (("stop", "work"), 2, "which node?"),
        (("stop", "work", "--node", "z"), 2, "unknown node 'z'"),
        (("restart",), 2, "which daemon?"),
        (("stop", "obey", "--node", "a"), 1, "carries out the orders itself"),
    ):
        found = home.run("daemons", *words)
        assert found[0] == code, found
        assert text in found[1]
