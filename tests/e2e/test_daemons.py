"""From another process: the daemons of a running cluster, commands to one of them, and probes."""

import json
import signal

from e2e.processes import Home

LINES_MAX = 2000
"""Lines of a run within which its loop has begun."""


def test_daemons_are_listed_ordered_and_probed_from_outside(home: Home) -> None:
    """One is restarted, stopped and started by a command; health and probes show the difference, and the end."""
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
    assert (code, "no node is running" in text) == (1, True), text
    assert home.run("health", "--live")[0] == 1
    code, text = home.run("daemons", "stop", "rate", "--node", "a")
    assert (code, "node a cannot be reached" in text) == (1, True), text
    code, text = home.run("daemons")
    assert (code, "no running node" in text) == (1, True), text


def daemons(home: Home) -> dict[str, dict[str, dict[str, object]]]:
    """By node and name, the row of each daemon."""
    code, text = home.run("daemons", "--json")
    assert code == 0, text
    return {node["node"]: {daemon["name"]: daemon for daemon in node["daemons"]} for node in json.loads(text)["nodes"]}


def listed(home: Home) -> None:
    """Both nodes are listed with all their daemons, and all are healthy."""
    nodes = daemons(home)
    assert set(nodes) == {"a", "a-2"}
    assert {daemon["state"] for node in nodes.values() for daemon in node.values()} == {"running"}
    assert "elect" in nodes["a"]
    assert "elect" not in nodes["a-2"]
    code, text = home.run("daemons", "--node", "a")
    assert code == 0
    assert "node a (full)" in text
    assert "a-2" not in text
    code, text = home.run("health", "--ready")
    assert (code, text.strip()) == (0, "ready")


def ordered(home: Home) -> None:
    """The only node that has the daemon carries the command out, and the list shows the new state afterwards."""
    code, text = home.run("daemons", "restart", "rate")
    assert (code, text.strip()) == (0, "daemon rate on a: restarted")
    assert daemons(home)["a"]["rate"]["restarts"] == 1

    code, text = home.run("daemons", "stop", "rate")
    assert (code, text.strip()) == (0, "daemon rate on a: stopped")
    code, text = home.run("health", "--json")
    assert code == 1
    unknown = {issue["part"]: issue["reason"] for issue in json.loads(text)["issues"] if issue["status"] == "unknown"}
    assert unknown == {"daemons/a/rate": "stopped"}
    assert home.run("health", "--live")[0] == 0, "it is not critical"

    code, text = home.run("daemons", "start", "rate", "--json")
    assert code == 0
    assert json.loads(text)["error"] == ""
    assert daemons(home)["a"]["rate"]["state"] == "running"
    code, text = home.run("events", "tail", "--names", "daemon.command_issued,daemon.command_done")
    assert text.count("daemon.command_issued") == text.count("daemon.command_done") == 3


def refused(home: Home) -> None:
    """An unknown or ambiguous daemon is an error of its own, and no command is issued."""
    for words, code, text in (
        (("stop", "dance"), 2, "unknown daemon 'dance'; known: "),
        (("stop", "work"), 2, "several nodes have daemon work: add --node a | a-2"),
        (("stop", "work", "--node", "z"), 2, "unknown node 'z'"),
        (("restart",), 2, "name the daemon"),
        (("stop", "run_commands", "--node", "a"), 1, "runs the commands itself"),
    ):
        answer = home.run("daemons", *words)
        assert answer[0] == code, answer
        assert text in answer[1]
