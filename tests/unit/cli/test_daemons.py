"""The daemons of every node are listed by category, and commands go to the one node that has the daemon."""

from pathlib import Path

import pytest

from ringrift.cli.commands.daemons import (
    _ANSWER_SECONDS_MAX,
    _HEAD,
    _as_text,
    _as_tree,
    _node_with,
    _result_text,
    _wait_done,
)
from ringrift.cli.presence import Presence
from ringrift.cluster import daemon_commands
from ringrift.cluster.activity import Activity
from ringrift.cluster.daemon_summary import DaemonSummary
from ringrift.cluster.roster import NodeRecord
from ringrift.events.base import Envelope
from ringrift.events.daemon import CommandDone, CommandIssued
from ringrift.kernel.errors import InputError, NodeAway, SupervisionError, UnknownName
from ringrift.kernel.health import Health, Status
from ringrift.supervision.status import DaemonStatus
from unit.supervision.watched import loop_clock
from unit.work.world import World, play

NOW = 10_000.0


def daemon(name: str, category: str = "other", state: str = "running") -> DaemonStatus:
    """A healthy daemon since 90 seconds."""
    health = Health(part=name, status=Status.HEALTHY, since=NOW - 90.0)
    return DaemonStatus(name=name, category=category, state=state, health=health, runs=1)


RUN_COMMANDS, FILL = daemon("run_commands", "core"), daemon("fill", "training")
RATE = DaemonStatus(
    name="rate",
    category="evaluation",
    state="failed",
    health=Health(part="rate", status=Status.UNHEALTHY, reason="given up:\n no", since=NOW - 5.0),
    runs=7,
    failures=6,
    restarts=5,
    last_error="ValueError: no",
)


def node(id: str, *statuses: DaemonStatus, more: int = 0) -> NodeRecord:
    """A node that reports these daemons."""
    activity = Activity(daemons=DaemonSummary(statuses=statuses, more=more))
    return NodeRecord(id=id, profile="full", address=id, beat=1, activity=activity)


TWO = Presence(
    present=(node("a", FILL, RUN_COMMANDS, RATE), node("b", RUN_COMMANDS)),
    silent=(node("c", RUN_COMMANDS, FILL),),
    seconds=15.0,
)


def test_a_node_shows_its_daemons_by_category() -> None:
    """Each with state, health, since when, counts, reason and last error in one line; silent nodes are named."""
    lines = _as_text(TWO, NOW).splitlines()

    assert lines[0] == "node a (full)"
    assert lines[1].split() == " ".join(_HEAD).split()
    assert lines[2].split()[:8] == ["core", "run_commands", "running", "healthy", "1", "min", "30", "s"]
    assert lines[3].split()[:2] == ["training", "fill"]
    assert " ".join(lines[4].split()) == ("evaluation rate failed unhealthy 5 s ago 7 6 5 given up: no ValueError: no")
    assert lines[6] == "node b (full)"
    assert lines[-1] == "no heartbeat for 15 s: c"


def test_a_category_is_named_where_it_begins() -> None:
    """Not again in the lines below."""
    text = _as_text(Presence(present=(node("a", RUN_COMMANDS, daemon("beat", "core"), more=2),)), NOW)

    assert text.count("core") == 1
    assert text.splitlines()[-1] == "… and 2 more"


def test_what_a_newer_node_says_is_shown() -> None:
    """A category that this version does not have is no reason to show nothing."""
    new = daemon("dream", "sleep")

    lines = _as_text(Presence(present=(node("a", new, RUN_COMMANDS),)), NOW).splitlines()

    assert [line.split()[:2] for line in lines[2:]] == [["core", "run_commands"], ["sleep", "dream"]]


def test_a_cluster_without_nodes_says_so() -> None:
    """And an old node, which says nothing of its daemons, is here all the same."""
    assert _as_text(Presence(silent=TWO.silent), NOW).startswith("no running node")
    assert "reports no daemons" in _as_text(Presence(present=(node("a"),)), NOW)


def test_programs_get_every_field() -> None:
    """Also those that a beat leaves out because they are as usual."""
    tree = _as_tree(TWO)

    assert tree["silent"] == ["c"]
    assert [row["node"] for row in tree["nodes"]] == ["a", "b"]
    assert tree["nodes"][1]["daemons"] == [
        {
            "name": "run_commands",
            "category": "core",
            "critical": False,
            "state": "running",
            "status": "healthy",
            "reason": "",
            "since": NOW - 90.0,
            "runs": 1,
            "failures": 0,
            "restarts": 0,
            "error": "",
        }
    ]


def test_a_command_goes_to_the_node_that_has_the_daemon() -> None:
    """To the one that is named, or to the only one that has it."""
    assert _node_with(TWO, "rate", None).id == "a"
    assert _node_with(TWO, "run_commands", "b").id == "b"
    assert _node_with(Presence(present=(node("a", RUN_COMMANDS, more=1),)), "anything", None).id == "a", (
        "it may be among those not shown"
    )


@pytest.mark.parametrize(
    ("presence", "name", "where", "error", "words"),
    [
        (TWO, "rate", "b", UnknownName, "unknown daemon 'rate'; known: run_commands"),
        (TWO, "dance", None, UnknownName, "known: fill, rate, run_commands"),
        (TWO, "fill", "c", NodeAway, "node c cannot be reached"),
        (TWO, "fill", "z", UnknownName, "unknown node 'z'; known: a, b, c"),
        (TWO, "run_commands", None, InputError, r"several nodes have daemon run_commands: add --node a \| b"),
        (Presence(departed=("a",)), "fill", "a", NodeAway, "node a cannot be reached"),
        (Presence(), "fill", None, SupervisionError, "no running node"),
        (Presence(present=(node("a", FILL),)), "fill", None, SupervisionError, "node a accepts no commands"),
        (
            Presence(present=(node("a", FILL, daemon("run_commands", state="stopped")),)),
            "fill",
            "a",
            SupervisionError,
            "accepts no commands: its daemon run_commands is not running",
        ),
    ],
)
def test_a_command_without_a_target_is_refused(
    presence: Presence, name: str, where: str | None, error: type[Exception], words: str
) -> None:
    """Before anything is written, with an error that names what is missing."""
    with pytest.raises(error, match=words):
        _node_with(presence, name, where)


async def issue(world: World, daemon: str) -> Envelope:
    """Issue a command."""
    async with world.store.begin() as tx:
        event = CommandIssued(daemon=daemon, node="here", action="restart", by="me")
        return await daemon_commands.issue(tx, world.envelopes, event)


def test_a_command_waits_for_its_own_result(tmp_path: Path) -> None:
    """Of this command and no other, whatever else is carried out."""

    async def story(world: World) -> CommandDone | None:
        await issue(world, "other")
        command = await issue(world, "fill")
        async with world.store.read() as view:
            waiting = await daemon_commands.pending(view, "here")
        for pending in waiting:
            async with world.store.begin() as tx:
                await daemon_commands.complete(tx, world.envelopes, pending, "" if pending.daemon == "fill" else "no")
        return await _wait_done(world.store, command, world.clock)

    done = play(tmp_path, story)

    assert done is not None
    assert _result_text(done, "fill", "restart") == "daemon fill on here: restarted"


def test_a_command_does_not_wait_for_ever(tmp_path: Path) -> None:
    """What is not done in time is kept, and that is said."""

    async def story(world: World) -> tuple[CommandDone | None, float]:
        clock = loop_clock()
        command, begun = await issue(world, "fill"), clock.tick()
        return await _wait_done(world.store, command, clock), clock.tick() - begun

    done, seconds = play(tmp_path, story, simulated=True)

    assert done is None
    assert _ANSWER_SECONDS_MAX <= seconds < _ANSWER_SECONDS_MAX + 1.0
    assert _result_text(done, "fill", "stop") == (
        'asked daemon "fill" to stop; it has not stopped after 10 s (still waiting: ringrift daemons)'
    )


def test_a_command_that_failed_says_why() -> None:
    """With the words of the node."""
    failed = CommandDone(command="o", daemon="fill", node="a", action="stop", error="still runs")

    assert _result_text(failed, "fill", "stop") == "daemon fill on a could not stop: still runs"
