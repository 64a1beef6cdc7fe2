"""kill -9 to workers of the real workload: finished games and training are kept to within seconds, and it goes on."""

import asyncio
import json
import os
import random
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import apsw
import numpy as np
import pytest

from e2e.processes import Home, outlived
from ringrift.kernel.clock import SystemClock
from ringrift_reversi import tensors
from waiting import wait_until

# The lease is that of `make run`: what is kept must not hang on how often a lease is renewed.
TINY = """
[work]
slots = 1
rescue_seconds = 0.2
[work.params]
sims = 4
channels = 4
blocks = 1
steps = 1000000
batch = 64
[work.retry]
first_seconds = 0.05
[cluster]
beat_seconds = 0.5
elect_seconds = 0.3
role_seconds = 1.2
[policy]
play_jobs_open = 1
"""
VARIANT = "hex8_2p"
GAMES_KEPT_SECONDS, TRAINING_KEPT_SECONDS = 5.0, 10.0
LATE_SECONDS = 1.0  # how late we may see it on a machine that has other work
PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class Seen:
    """A job as the store has it."""

    attempts: int
    checkpoint: str | None
    at: float


class Watch:
    """What is asked of one run from outside, and how its workers are killed."""

    def __init__(self, home: Home, process: "subprocess.Popen[str]", seed: int) -> None:
        self.home, self.process = home, process
        self._rng, self._clock = random.Random(seed), SystemClock()

    def claimed(self, kind: str) -> Seen | None:
        """The job of *kind* that somebody does at present."""
        query = "SELECT attempts, outputs FROM jobs WHERE kind = ? AND state = 'claimed' ORDER BY number LIMIT 1"
        if not self.home.database.exists():
            return None
        try:
            rows = self.home.ask(query, kind)
        except (apsw.CantOpenError, apsw.SQLError):
            return None  # the store is being made just now
        for attempts, outputs in rows:
            left = json.loads(outputs)
            return Seen(attempts, left[-1]["blob"] if left else None, self._clock.tick())
        return None

    async def until(self, kind: str, *, attempts: int = 1, after: Seen | None = None, kept: bool = True) -> Seen:
        """Wait for a job of *kind* in this try or a later one; with *kept*, for a checkpoint other than *after*'s."""
        found: list[Seen] = []

        def reached() -> bool:
            assert self.process.poll() is None, self.process.communicate()[0][-3000:]
            seen = self.claimed(kind)
            if seen is None or seen.attempts < attempts:
                return False
            if kept and (seen.checkpoint is None or (after is not None and seen.checkpoint == after.checkpoint)):
                return False
            found.append(seen)
            return True

        await wait_until(reached, PATIENCE_SECONDS)
        return found[-1]

    async def kill(self, within_seconds: float) -> None:
        """SIGKILL to every worker of the run, at a random moment *within_seconds* from now."""
        assert await asyncio.to_thread(outlived, self.process, self._rng.uniform(0.0, within_seconds))
        for pid in self.home.orphans():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def kept(self, seen: Seen) -> dict[str, tensors.Array]:
        """What the checkpoint of *seen* holds."""
        [path] = self.home.path.glob(f"blobs/*/*/{seen.checkpoint}")
        return tensors.unpack(path.read_bytes())[0]


@asynccontextmanager
async def running(path: Path, policy: str, seed: int) -> AsyncIterator[Watch]:
    """A run of one node with one worker, which afterwards ends in good order."""
    home = Home(path, TINY + policy)
    process = home.start("run", "--minutes", "30", "--nodes", "1", "--variants", VARIANT, "--seed", str(seed))
    try:
        yield Watch(home, process, seed)
    finally:
        process.send_signal(signal.SIGTERM)
        output, _ = await asyncio.to_thread(process.communicate, timeout=PATIENCE_SECONDS)
    assert process.returncode == 128 + signal.SIGTERM, output[-3000:]
    assert home.orphans() == []


async def kill_player(path: Path) -> None:
    """A batch that never ends is killed after its second checkpoint."""
    async with running(path, "games_per_batch = 100000", seed=3) as watch:
        first = await watch.until("play")
        last = await watch.until("play", after=first)
        await watch.kill(within_seconds=2.0)
        again = await watch.until("play", attempts=2, after=last)

        before, after = watch.kept(last), watch.kept(again)
        games = len(before["numbers"])
        assert last.at - first.at < GAMES_KEPT_SECONDS + LATE_SECONDS
        assert games > len(watch.kept(first)["numbers"]) > 0
        assert after["numbers"][:games].tolist() == before["numbers"].tolist()
        assert np.array_equal(after["done.moves"][: len(before["done.moves"])], before["done.moves"])
        assert len(after["numbers"]) > games


async def kill_the_others(path: Path) -> None:
    """A player, then an exporter, then the trainer of what those two made all the same."""
    async with running(path, "games_per_batch = 64\ngames_per_export = 128", seed=4) as watch:
        await watch.until("play", kept=False)
        await watch.kill(within_seconds=0.5)
        await watch.until("export", kept=False)
        await watch.kill(within_seconds=0.02)
        first = await watch.until("train")
        last = await watch.until("train", after=first)
        await watch.kill(within_seconds=1.0)
        again = await watch.until("train", attempts=2, after=last)

        tries = dict(watch.home.ask("SELECT kind, max(attempts) FROM jobs WHERE state = 'done' GROUP BY kind"))
        lost = watch.home.ask("SELECT count(*) FROM log WHERE name IN ('data.lost', 'work.buried')")
        assert last.at - first.at < TRAINING_KEPT_SECONDS + LATE_SECONDS
        assert watch.kept(again)["step"][0] > watch.kept(last)["step"][0] > watch.kept(first)["step"][0] > 0
        assert min(tries["play"], tries["export"]) >= 2, f"not every kill hit what it was meant for: {tries}"
        assert lost == [(0,)]
        assert watch.home.unbalanced() == []


@pytest.mark.timeout(240)
def test_killed_workers_lose_seconds(tmp_path: Path) -> None:
    """The next try has every game of a checkpoint ≤ 5 s old, or every step of one ≤ 10 s old; exports are redone."""

    async def both() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(kill_player(tmp_path / "player"))
            group.create_task(kill_the_others(tmp_path / "others"))

    asyncio.run(both())
