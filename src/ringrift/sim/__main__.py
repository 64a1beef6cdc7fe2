"""``python -m ringrift.sim SEED [SEEDS]``: run seeds and print the story of each that violates an invariant."""

import argparse
import sys

from ringrift.sim.scenario import run_seed


def _main() -> int:
    """Run the seeds; 0 if every invariant holds."""
    parser = argparse.ArgumentParser(prog="ringrift.sim", description=__doc__)
    parser.add_argument("seed", type=int, help="the first seed")
    parser.add_argument("seeds", type=int, nargs="?", default=1, help="how many seeds, from SEED on (default 1)")
    options = parser.parse_args()
    failed = 0
    for seed in range(options.seed, options.seed + options.seeds):
        outcome = run_seed(seed)
        if outcome.violations or options.seeds == 1:
            sys.stdout.write("\n".join(outcome.story) + "\n")
        result = "\n  ".join(["VIOLATED", *outcome.violations]) if outcome.violations else "every invariant holds"
        sys.stdout.write(f"seed {seed}: {outcome.steps} steps, fingerprint {outcome.fingerprint[:12]}: {result}\n")
        failed += bool(outcome.violations)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(_main())
