"""``make cluster``: faults drawn from a seed on a coordinator and five workers, for as long as asked.

After each round the fleet must be back at full work in time, and at the end nothing may be lost or counted twice.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from random import Random

from e2e.cluster_faults import BACK_SECONDS_MAX, FAULTS, assert_alone, assert_kept, start, suffer
from e2e.cluster_world import CLOCK, COORDINATOR, open_cluster

WORKERS = 5
HOSTS_MAX = 4  # that suffer at the same time


def _main() -> None:
    parser = argparse.ArgumentParser(prog="make cluster", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng, end = Random(options.seed), CLOCK.tick() + options.seconds
    folder = Path(tempfile.mkdtemp(prefix="ringrift-cluster-"))  # it stays, to be looked at
    with open_cluster(folder, WORKERS) as cluster:
        start(cluster)
        assert_alone(cluster)
        while CLOCK.tick() < end:
            hosts = rng.sample(sorted(cluster.hosts), rng.randint(1, HOSTS_MAX))
            faults = {name: rng.choice(sorted(FAULTS)) for name in hosts}
            faults |= {
                name: "restart" for name, fault in faults.items() if (name, fault) == (COORDINATOR, "it vanishes")
            }
            seconds = rng.uniform(1.0, 25.0)
            sys.stdout.write(f"{seconds:4.1f} s of {faults}: ")
            sys.stdout.flush()
            suffer(cluster, faults, seconds)
            sys.stdout.write(f"back at full work after {cluster.work_again(BACK_SECONDS_MAX):.1f} s\n")
            assert_kept(cluster)
        results = {name: len(host.acknowledged()) for name, host in cluster.workers.items()}
        sys.stdout.write(f"nothing was lost and nothing counts twice: {results}\n")


if __name__ == "__main__":
    _main()
