"""The chaos run: ``python -m chaos.run [--seconds 3600] [--seed N]`` breaks a whole loop of real processes, and judges.

Three nodes and two programs share one home.  Faults are drawn by the seed: a shuffled deck of all kinds, again and
again.  While one lasts, ``ringrift status`` must name it.  At the end everything is mended, the loop must go on by
itself, and the histories of all processes are compared with the store.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from random import Random

import apsw

from chaos import judge
from chaos.faults import FAULTS, Fault, fault_lines
from chaos.injections import INJECTIONS
from chaos.world import NAMES, PROGRAMS, VARIANTS, World, dump

_PAUSE_SECONDS = (0.5, 4.0)
_TOGETHER = 0.2  # share of the faults that come with a second one
_NAMED_SECONDS_MAX = 30.0  # how much longer a fault may last until status has named it
_SHORT_RUN_SECONDS, _SHORT_SCALE = 300.0, 0.25
_PROGRESS_SECONDS_MAX, _SETTLE_SECONDS_MAX = 240.0, 120.0
_INSIDE = "RINGRIFT_CHAOS_MOUNTS"


class Nemesis:
    """Draws faults for a while; counts how often each came and was named."""

    def __init__(self, world: World, rng: Random, kinds: list[str], scale: float) -> None:
        self._world, self._rng, self._kinds, self._scale = world, rng, kinds, scale
        self._deck: list[str] = []
        self.times: Counter[str] = Counter()
        self.expected: Counter[str] = Counter()
        self.named: Counter[str] = Counter()
        self.before = dict[str, tuple[int, int]]()

    def run(self, seconds: float) -> None:
        """One fault after another for *seconds*."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            kinds = [self._draw()]
            if self._rng.random() < _TOGETHER:
                kinds.append(self._draw())
            self._inject([FAULTS[kind] for kind in kinds])
            self._world.wait(self._rng.uniform(*_PAUSE_SECONDS))
            self.check_progress()

    def _draw(self) -> str:
        if not self._deck:
            self._deck = self._rng.sample(self._kinds, len(self._kinds))
        return self._deck.pop()

    def _inject(self, faults: list[Fault]) -> None:
        world, cases, targets = self._world, list[tuple[Fault, str, int]](), dict[str, Fault]()
        seconds = max(self._rng.uniform(*fault.seconds) * self._scale for fault in faults)
        for fault in faults:
            name = self._rng.choice(fault.targets)
            if name in targets or (fault.blocks and any(other.blocks for other in targets.values())):
                continue  # one would hide the other, or could not even begin
            targets[name] = fault
            if name in NAMES:
                world.await_ready(name)  # before any begins: under a locked store no node becomes ready
        with ExitStack() as stack:
            # Those of nodes first: on a disk that is read-only no folder can be moved away.
            for name, fault in sorted(targets.items(), key=lambda item: item[0] not in NAMES):
                world.log(f"FAULT {fault.name} of {name} begins")
                pid = stack.enter_context(INJECTIONS[fault.name](world, name, self._rng))
                cases.append((fault, name, pid))
            self._hold(cases, seconds)
        world.log("mended: " + ", ".join(f"{fault.name} of {name}" for fault, name, _ in cases))

    def _hold(self, cases: list[tuple[Fault, str, int]], seconds: float) -> None:
        """Let the faults last for *seconds*, and longer until status has named them all."""
        world, start = self._world, time.monotonic()
        blocking = [case for case in cases if case[0].blocks]
        open_cases = [case for case in blocking or cases if case[0].phrases]
        self.expected.update(fault.name for fault, _, _ in open_cases)
        self.times.update(fault.name for fault, _, _ in cases)
        while (elapsed := time.monotonic() - start) < seconds or (
            open_cases and elapsed < seconds + _NAMED_SECONDS_MAX
        ):
            if open_cases:
                output = world.status()
                named = [case for case in open_cases if case[0].is_named(output, *case[1:])]
                self.named.update(fault.name for fault, _, _ in named)
                open_cases = [case for case in open_cases if case not in named]
                lines = fault_lines(output)
                world.story.add(output if named else "status: " + "; ".join(lines))
            world.wait(0.5)
        for fault, name, pid in open_cases:
            world.story.add(output)
            world.fail(f"ringrift status did not name {fault.name} of {name} (process {pid})")

    def check_progress(self) -> dict[str, tuple[int, int]]:
        """Generation and batches of the lines; those that went back are findings."""
        try:
            now = self._world.generations()
        except apsw.Error as error:
            self._world.log(f"the store cannot be read: {error}")
            return self.before
        for text in judge.fallen(self.before, now):
            self._world.fail(text)
        self.before = now
        return now


def _heal(world: World, nemesis: Nemesis) -> dict[str, float]:
    """Every line must go on by itself; the seconds until each had new batches, and a new generation."""
    for name in NAMES:
        world.await_ready(name)
    world.log("no more faults")
    start, before, seconds = time.monotonic(), nemesis.check_progress(), dict[str, float]()

    def goes_on() -> bool:
        now = nemesis.check_progress()
        for variant in VARIANTS:
            for index, what in enumerate(("generation", "batches")):
                old, new = before.get(variant, (0, 0)), now.get(variant, (0, 0))
                if new[index] > old[index]:
                    seconds.setdefault(f"{variant} {what}", time.monotonic() - start)
        return len(seconds) == 2 * len(VARIANTS)

    if not world.until(goes_on, _PROGRESS_SECONDS_MAX):
        world.fail(f"not every line went on within {_PROGRESS_SECONDS_MAX:g} s after the last fault: only {seconds}")
    return seconds


def _judge(world: World, nemesis: Nemesis) -> dict[str, float]:
    seconds = _heal(world, nemesis)
    for name in PROGRAMS:
        world.down.add(name)
        world.processes[name].popen.terminate()
    for switches in world.switches.values():
        switches.set("quiet", 1)
    if not world.until(lambda: judge.is_settled(world), _SETTLE_SECONDS_MAX, 1.0):
        world.log(f"not everything acknowledged is settled after {_SETTLE_SECONDS_MAX:g} s")
    if not world.until(lambda: not fault_lines(world.status()), _NAMED_SECONDS_MAX, 1.0):
        world.fail(f"status names faults after all were mended: {fault_lines(world.status())}")
    world.story.add(world.status())
    for text in judge.check_daemons(world):
        world.fail(text)
    world.stop_all()
    for check in (judge.check_events, judge.check_work, judge.check_jobs, judge.check_file):
        for text in check(world):
            world.fail(text)
    return seconds


def _report(world: World, nemesis: Nemesis, seconds: dict[str, float], skipped: list[str], seed: int) -> None:
    histories = judge.Histories(world)
    lines = [f"{'fault':24}{'times':>6}{'lasted':>8}{'named':>7}"]
    lines += [
        f"{kind:24}{nemesis.times[kind]:>6}{nemesis.expected[kind]:>8}{nemesis.named[kind]:>7}"
        for kind in FAULTS
        if kind not in skipped
    ]
    lines += [f"{kind:24}skipped: it needs root, to mount a file system of its own" for kind in skipped]
    lines.append(f"published {histories.tried}, acknowledged {len(histories.acknowledged)}")
    lines.append(f"refused {dict(histories.refused)}; forked children that published {histories.forked}")
    lines.append(f"starts that were refused: {world.refused_starts}")
    lines.append(f"lines (generation, batches): {nemesis.before}")
    lines.append("went on after the last fault: " + ", ".join(f"{k} {v:.0f} s" for k, v in seconds.items()))
    lines += [f"VIOLATION {text}" for text in world.findings]
    result = f"{len(world.findings)} violations" if world.findings else "every promise holds"
    lines.append(f"seed {seed}: {result}; histories and logs: {world.folder}")
    sys.stdout.write("\n".join(lines) + "\n")
    (world.folder / "summary.txt").write_text("\n".join(lines) + "\n")
    dump(world.folder / "faults.json", {"times": nemesis.times, "named": nemesis.named, "findings": world.findings})


def _run(seconds: float, seed: int, folder: Path, kinds: list[str]) -> int:
    mounted = os.environ.get(_INSIDE) == "1"
    skipped = [] if mounted else [kind for kind in kinds if FAULTS[kind].mounts]
    kinds = [kind for kind in kinds if kind not in skipped]
    world = World(folder, mounted)
    nemesis = Nemesis(world, Random(seed), kinds, _SHORT_SCALE if seconds <= _SHORT_RUN_SECONDS else 1.0)
    try:
        for name in NAMES:
            world.start(name)
            world.await_ready(name)
        nemesis.run(seconds)
        times = _judge(world, nemesis)
        world.collect_evidence()
        _report(world, nemesis, times, skipped, seed)
    finally:
        world.clear()
    return 1 if world.findings else 0


def _main() -> int:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0, help="how long faults are drawn")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where histories and logs stay (default: a new temporary one)")
    parser.add_argument("--only", default="", help="kinds of faults to draw, by comma")
    options = parser.parse_args()
    if _INSIDE not in os.environ:
        # Mounts in a namespace of their own vanish with the last process, however this one ends.
        can = os.geteuid() == 0 and shutil.which("mkfs.ext4") and shutil.which("unshare")
        alone = ["unshare", "--mount", "--propagation", "private"] if can else []
        if alone and subprocess.run([*alone, "true"], check=False, capture_output=True).returncode:
            alone = []
        command = [*alone, sys.executable, "-m", "chaos.run", *sys.argv[1:]]
        os.execvpe(command[0], command, {**os.environ, _INSIDE: str(int(bool(alone)))})
    folder = options.folder or Path(tempfile.mkdtemp(prefix="ringrift-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    kinds = options.only.split(",") if options.only else list(FAULTS)
    return _run(options.seconds, options.seed, folder, kinds)


if __name__ == "__main__":
    sys.exit(_main())
