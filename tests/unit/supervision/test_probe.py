"""A daemon is judged by its progress."""

from typing import Any

import msgspec
import pytest

from ringrift.kernel.health import Health, Status
from ringrift.supervision.status import Vitals, assess

WELL = Vitals(state="running", progress=100.0, started=50.0, patience=60.0, failures=0)
GOOD = Health(part="own", status=Status.HEALTHY)
WORSE = Health(part="own", status=Status.UNHEALTHY, reason="no licence")


@pytest.mark.parametrize(
    ("changes", "tick", "status", "reason"),
    [
        ({}, 110.0, Status.HEALTHY, ""),
        ({}, 160.0, Status.HEALTHY, ""),
        ({}, 161.0, Status.UNHEALTHY, "no progress for 61 s"),
        ({"failures": 2, "error": "ValueError: no"}, 110.0, Status.DEGRADED, "2 recent failures, last: ValueError: no"),
        ({"failures": 2, "error": "x"}, 500.0, Status.UNHEALTHY, "no progress for 400 s"),
        ({"progress": None}, 60.0, Status.UNKNOWN, "not ready yet"),
        ({"progress": None}, 111.0, Status.UNHEALTHY, "no progress for 61 s"),
        ({"progress": None, "failures": 1, "error": "x"}, 60.0, Status.UNHEALTHY, "fails at its start: x"),
        ({"state": "pausing", "failures": 1, "error": "x"}, 500.0, Status.DEGRADED, "1 recent failures, last: x"),
        ({"state": "waiting", "waits": "no room"}, 500.0, Status.DEGRADED, "waits: no room"),
        ({"started": 155.0}, 161.0, Status.HEALTHY, ""),
        ({"stall": "blocked the loop"}, 110.0, Status.DEGRADED, "blocked the loop"),
        ({"reports": (WORSE,), "failures": 1, "error": "x"}, 110.0, Status.UNHEALTHY, "no licence"),
        ({"reports": (GOOD,)}, 110.0, Status.HEALTHY, ""),
        (
            {"state": "stopped", "left": True},
            110.0,
            Status.UNHEALTHY,
            "was told to stop and still runs: only a restart of the node helps",
        ),
        ({"state": "failed", "error": "OSError: gone"}, 110.0, Status.UNHEALTHY, "given up: OSError: gone"),
        ({"state": "stopped"}, 110.0, Status.UNKNOWN, "stopped"),
        ({"state": "stopped"}, 9999.0, Status.UNKNOWN, "stopped"),
    ],
)
def test_the_facts_decide_the_health(changes: dict[str, Any], tick: float, status: Status, reason: str) -> None:
    """Progress makes healthy, failures degrade, silence and giving up are unhealthy, the rest is unknown."""
    assert assess(msgspec.structs.replace(WELL, **changes), tick) == (status, reason)
