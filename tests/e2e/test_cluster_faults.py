"""A coordinator and five workers on machines of their own: faults under load lose nothing and count nothing twice.

Each machine is a network and a mount namespace, where the homes of the others do not exist.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.cluster_faults import BACK_SECONDS_MAX, assert_alone, assert_kept, start, suffer
from e2e.cluster_world import COORDINATOR, OUTBOUND_ONLY, open_cluster

WORKERS = 5
ROUNDS = (
    {"w1": "kill -9", "w2": "SIGSTOP", "w3": "partition", "w4": "clock + 1 h"},
    {"w1": "nothing passes to it", "w3": "nothing comes from it", "w4": "10 % loss", OUTBOUND_ONLY: "clock - 1 day"},
    {name: "300 ms delay" for name in ("w1", "w2", "w3", "w4", OUTBOUND_ONLY)} | {COORDINATOR: "clock + 1 h"},
    {COORDINATOR: "kill -9", OUTBOUND_ONLY: "SIGSTOP"},
    {COORDINATOR: "restart", "w4": "it vanishes"},
)
"""What goes wrong at the same time, round by round."""


@pytest.mark.timeout(600)
def test_five_workers_come_through_every_fault(tmp_path: Path, record_property: Callable[[str, str], None]) -> None:
    """Within thirty seconds after each fault every worker does jobs that it has claimed since, and nothing is lost."""
    with open_cluster(tmp_path, WORKERS) as cluster:
        start(cluster)
        assert_alone(cluster)

        for faults in ROUNDS:
            suffer(cluster, faults)
            seconds = cluster.work_again(BACK_SECONDS_MAX)
            record_property(", ".join(sorted(set(faults.values()))), f"{seconds:.1f} s")

        kinds = Counter(row.kind for host in cluster.workers.values() for row in host.acknowledged())
        record_property("acknowledged", str(dict(kinds)))
        assert_kept(cluster)
