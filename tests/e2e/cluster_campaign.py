"""``make cluster``: faults drawn from a seed on a coordinator and its workers, for as long as asked.

With ``--vanish`` a third of the workers loses disk and life every minute, right after a result was acknowledged.
After each round the fleet must be back at full work in time, and at the end nothing may be lost or counted twice.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from random import Random

from e2e.cluster_faults import BACK_SECONDS_MAX, FAULTS, VANISHES, assert_alone, assert_kept, start, suffer
from e2e.cluster_world import CLOCK, COORDINATOR, FLEET, Cluster, open_cluster
from wait import until

WORKERS = 5
HOSTS_MAX = 4  # that suffer at the same time
ROUND_SECONDS = 60.0


def _draw_faults(cluster: Cluster, rng: Random) -> dict[str, str]:
    hosts = rng.sample(sorted(cluster.hosts), rng.randint(1, HOSTS_MAX))
    faults = {name: rng.choice(sorted(FAULTS)) for name in hosts}
    return {name: "restart" if (name, fault) == (COORDINATOR, VANISHES) else fault for name, fault in faults.items()}


def _draw_third(cluster: Cluster, rng: Random) -> dict[str, str]:
    return dict.fromkeys(rng.sample(cluster.names, len(cluster.names) // 3), VANISHES)


def _main() -> None:
    parser = argparse.ArgumentParser(prog="make cluster", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=WORKERS)
    parser.add_argument("--vanish", action="store_true", help="a third of the workers vanishes every minute")
    options = parser.parse_args()
    rng = Random(options.seed)
    folder = Path(tempfile.mkdtemp(prefix="ringrift-cluster-"))  # it stays, to be looked at
    settings = FLEET.replace("play_jobs_open = 16", f"play_jobs_open = {options.workers + 11}")
    with open_cluster(folder, options.workers, settings) as cluster:
        start(cluster)
        assert_alone(cluster)
        end = CLOCK.tick() + options.seconds
        while (begin := CLOCK.tick()) < end:
            faults = (_draw_third if options.vanish else _draw_faults)(cluster, rng)
            seconds = rng.uniform(1.0, 25.0)
            sys.stdout.write(f"{seconds:4.1f} s of {faults}: ")
            sys.stdout.flush()
            suffer(cluster, faults, seconds)
            sys.stdout.write(f"back at full work after {cluster.work_again(BACK_SECONDS_MAX):.1f} s\n")
            assert_kept(cluster)
            if options.vanish:
                until(lambda: CLOCK.tick() >= begin + ROUND_SECONDS, ROUND_SECONDS)
        results = {name: len(host.acknowledged()) for name, host in cluster.workers.items()}
        sys.stdout.write(f"nothing was lost and nothing counts twice: {results}\n")


if __name__ == "__main__":
    _main()
