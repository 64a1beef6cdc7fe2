"""``python -m ringrift.sim SEED [SEEDS]``: plays seeds and tells the story of those that break a promise."""

import argparse
import sys

from ringrift.sim.scenario import run_seed


def main() -> int:
    """Play; 0 if every promise was kept."""
    parser = argparse.ArgumentParser(prog="ringrift.sim", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("seeds", type=int, nargs="?", default=1, help="how many, from SEED on")
    options = parser.parse_args()
    failed = 0
    for seed in range(options.seed, options.seed + options.seeds):
        outcome = run_seed(seed)
        if outcome.broken or options.seeds == 1:
            sys.stdout.write("\n".join(outcome.story) + "\n")
        verdict = "kept every promise" if not outcome.broken else "\n  ".join(["BROKE", *outcome.broken])
        sys.stdout.write(f"seed {seed}: {outcome.steps} steps, {outcome.fingerprint[:12]}: {verdict}\n")
        failed += bool(outcome.broken)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
