"""`ringrift health` is the one health with its issues and recoveries; a probe is true only when it is so."""

from typing import Any

import pytest

from ringrift.cli.commands.health import _as_text, _judge, _probe, _survey
from ringrift.cli.presence import Presence
from ringrift.cluster.activity import Activity
from ringrift.cluster.daemon_summary import DaemonSummary
from ringrift.cluster.recovery import Attempt, Recovery
from ringrift.cluster.roster import NodeRecord
from ringrift.kernel.health import Health, Status
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.system_health import HealthFacts
from ringrift.supervision.status import DaemonStatus
from ringrift.work.run_states import RunState


def daemon(name: str, status: Status = Status.HEALTHY, reason: str = "", **fields: Any) -> DaemonStatus:
    """A daemon with this health."""
    health = Health(part=name, status=status, reason=reason, since=fields.pop("since", None))
    return DaemonStatus(name=name, health=health, **fields)


BEAT = daemon("beat", critical=True)
STOPPED = daemon("rate", Status.UNKNOWN, "stopped", state="stopped", since=40.0)
BROKEN = daemon("beat", Status.UNHEALTHY, "given up: no", critical=True, state="failed")
STARTING = daemon("work", Status.UNKNOWN, "not ready yet", critical=True)
A, B = (Health(part=name, status=Status.HEALTHY) for name in "ab")


def node(id: str, *statuses: DaemonStatus) -> NodeRecord:
    """A node that reports these daemons."""
    activity = Activity(daemons=DaemonSummary(statuses=statuses))
    return NodeRecord(id=id, profile="full", address=id, beat=1, activity=activity)


WELL = Presence(present=(node("a", BEAT),), seconds=15.0)


def facts(*daemons: DaemonStatus, **fields: Any) -> HealthFacts:
    """Two nodes, one with these *daemons*."""
    return HealthFacts(nodes=(A, B), daemons={"a": daemons}, **fields)


def test_all_is_well_only_if_every_part_is_known_to_be() -> None:
    """A daemon that was stopped by hand is unknown, which is not healthy; one node can be looked at alone."""
    assert _judge(facts(BEAT), None).status is Status.HEALTHY
    assert _judge(facts(BEAT, STOPPED), None).status is Status.DEGRADED
    silent = HealthFacts(nodes=(A, Health(part="b", status=Status.UNHEALTHY)))
    assert _judge(silent, None).status is Status.DEGRADED
    assert (_judge(silent, "a").status, _judge(silent, "b").status) == (Status.HEALTHY, Status.UNHEALTHY)
    assert _judge(HealthFacts(), None).status is Status.UNHEALTHY


def test_people_read_each_issue_with_what_to_do_and_the_steps_against_it() -> None:
    """Brakes first, then the score, the worst issue first, and the recoveries with what the healer waits for."""
    recovery = Recovery(subject="daemon:a/beat", error="no", since=1.0)
    recovery = recovery.with_attempt(Attempt(step="restart_daemon", by="heal", time=70.0))
    verdict = Verdict(gate="heal daemon:a/beat", allowed=False, rule="restart_daemon is under way", value=1, limit=3)
    brake = RunState(scope="stage:train", state="paused", reason="upgrade", by="anna", since=90.0)
    seen = facts(BROKEN, STOPPED, run_states=(brake,), recoveries=(recovery,))

    first, *rest = _as_text(_judge(seen, None), seen, [verdict], 100.0).splitlines()

    assert first.startswith("BRAKE: stage train is paused")
    assert rest == [
        "unhealthy, score 0.59",
        "  unhealthy  daemons/a/beat: given up: no: ringrift daemons clear beat --node a",
        "  unknown  daemons/a/rate: stopped: ringrift daemons start rate --node a (since 1 min 0 s ago)",
        "  degraded  jobs/run_state: stage:train is paused (by anna; upgrade): ringrift resume --stage train"
        " (since 10 s ago)",
        "  recovery  daemon:a/beat: restart_daemon by heal 30 s ago",
        "  heal daemon:a/beat: restart_daemon is under way",
    ]


def test_the_nodes_that_were_observed_are_those_that_are_judged() -> None:
    """The present ones were seen to move, the others are silent."""
    survey = _survey(Presence(present=(node("a"),), silent=(node("b"),), seconds=15.0))

    assert [record.id for record in survey.nodes] == ["a", "b"]
    assert (survey.moved, survey.silent, survey.seconds) == ({"a"}, {"b"}, 15.0)


@pytest.mark.parametrize(
    ("presence", "alive", "ready", "reason"),
    [
        (WELL, True, True, ""),
        (Presence(present=(node("a", BEAT, STOPPED),)), True, True, ""),
        (Presence(present=(node("a", BEAT, STARTING),)), True, False, "a/work: not ready yet"),
        (Presence(present=(node("a", BEAT), node("b", BROKEN))), False, False, "b/beat: given up: no"),
        (Presence(present=WELL.present, silent=(node("c"),), seconds=15.0), False, False, "c: no heartbeat for 15 s"),
        (Presence(present=(node("old"),)), False, False, "old/reports no critical daemon"),
        (Presence(), False, False, "no running node"),
    ],
)
def test_a_probe_says_yes_only_when_it_is_so(presence: Presence, alive: bool, ready: bool, reason: str) -> None:
    """Only what is critical counts; whoever is not heard or says nothing is a no with that reason."""
    assert (_probe(presence, ready=False).ok, _probe(presence, ready=True).ok) == (alive, ready)
    assert _probe(presence, ready=True).reasons == ((reason,) if reason else ())
