"""``python -m ringrift.sim SEED [SEEDS]``: run seeds and print the story of each that violates an invariant."""

import argparse
import sys

from ringrift.sim.remote_scenario import run_remote_seed
from ringrift.sim.scenario import run_seed

_WORLDS = {"store": run_seed, "wire": run_remote_seed}


def _main() -> int:
    """Run the seeds; 0 if every invariant holds."""
    parser = argparse.ArgumentParser(prog="ringrift.sim", description=__doc__)
    parser.add_argument("seed", type=int, help="the first seed")
    parser.add_argument("seeds", type=int, nargs="?", default=1, help="how many seeds, from SEED on (default 1)")
    parser.add_argument("--world", choices=_WORLDS, help="nodes on one store, or workers over the wire (default both)")
    options = parser.parse_args()
    failed = 0
    for seed in range(options.seed, options.seed + options.seeds):
        for world in [options.world] if options.world else _WORLDS:
            outcome = _WORLDS[world](seed)
            if outcome.violations or options.seeds == 1:
                sys.stdout.write("\n".join(outcome.story) + "\n")
            result = "\n  ".join(["VIOLATED", *outcome.violations]) if outcome.violations else "every invariant holds"
            run = f"seed {seed}, {world}: {outcome.steps} steps, fingerprint {outcome.fingerprint[:12]}"
            sys.stdout.write(f"{run}: {result}\n")
            failed += bool(outcome.violations)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(_main())
