"""Train an example game in one store with reversi, and use every command on it that a player would use.

python tools/prove_example.py [dots|breakthrough] [--home DIR] [--minutes M] [--seed N]: exit code 0 if the example
conforms, if the claims of its run are proven, and if play, elo, lineage and report work for it.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from as_installed import environment

ROOT = Path(__file__).resolve().parents[1]
OTHER = "hex8_2p"
# The variant of each example, and its claims: it beats generation 0 and the players that its preset names.
EXAMPLES = {"dots": ("dots4_2p", 2), "breakthrough": ("breakthrough8_2p", 3)}
# The other game only has to be there: a small network, and a gate that nearly every candidate passes.
SMALL = ("work.params.sims=2", "work.params.channels=4", "work.params.blocks=1", "work.params.steps=20")
EASY = ("policy.games_per_export=64", "policy.games_per_batch=32", "policy.gate.elo_0=-200", "policy.gate.elo_1=0")
EASY += ("policy.gate.blocks_min=4", "policy.budget.share=0.5", "policy.budget.start=1.0")


def call(environ: Mapping[str, str], module: str, *words: str, typed: str = "", expect: str = "") -> None:
    """Run a module as a program and print what it prints.  Exits if it fails or does not print *expect*."""
    print(f"$ python -m {module} {' '.join(words)}", flush=True)
    command = [sys.executable, "-m", module, *words]
    ended = subprocess.run(command, env=environ, input=typed, text=True, capture_output=True)
    print(ended.stdout[-4000:], ended.stderr[-2000:], flush=True)
    if ended.returncode or expect not in ended.stdout:
        sys.exit(f"exit code {ended.returncode}, or no {expect!r}")


def main() -> None:
    """Check, train, look and play."""
    parser = argparse.ArgumentParser(description="Prove that an example game learns.")
    parser.add_argument("name", nargs="?", choices=EXAMPLES, default="dots", help="which one (default dots)")
    parser.add_argument("--home", help="its home (default: a temporary folder)")
    parser.add_argument("--minutes", default="3", help="how long it trains (default 3)")
    parser.add_argument("--seed", default="1", help="random seed (default 1)")
    options = parser.parse_args()
    variant, claims = EXAMPLES[options.name]
    with tempfile.TemporaryDirectory(prefix="ringrift-") as folder:
        home = options.home or f"{folder}/home"
        environ = environment(
            ROOT / "examples" / options.name, Path(folder) / "site", {**os.environ, "RINGRIFT_HOME": home}
        )
        call(environ, "ringrift.workload.conformance", options.name, variant, expect="conforms")
        settings = ["--seed", options.seed, *(word for setting in SMALL + EASY for word in ("--set", setting))]
        call(
            environ, "ringrift", "run", "--plain", "--iterations", "1", "--minutes", "0", "--variants", OTHER, *settings
        )
        timed = ("--minutes", options.minutes, "--variants", variant)  # a store keeps its seed
        call(environ, "ringrift", "run", "--plain", *timed, expect=f"PROVEN: all {claims} claims hold")
        call(environ, "ringrift", "elo", expect=variant)
        call(environ, "ringrift", "status", expect=OTHER)
        call(environ, "ringrift", "lineage", variant, expect=options.name)
        call(environ, "ringrift", "play", variant, typed="hint\nquit\n", expect="it would play")
        if variant not in Path(home, "report.html").read_text(encoding="utf-8"):
            sys.exit("the report does not name the example")
        print(f"{variant}: conforms, learns, and every command works for it")


if __name__ == "__main__":
    main()
