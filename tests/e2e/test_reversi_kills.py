"""kill -9 to workers of the real workload: finished games and training are kept to within seconds."""

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
from ringrift_reversi.records import BATCH_BYTES_MAX
from wait import wait_until

# The lease is that of `make run`: the kept progress must not depend on how often a lease is renewed.
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
LATE_SECONDS = 1.0  # how late the test may see it on a busy machine
PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class Observed:
    """A job as the store has it."""

    attempts: int
    checkpoint: str | None
    at: float


class Watch:
    """The queries on one run from outside, and the kills of its workers."""

    def __init__(self, home: Home, process: "subprocess.Popen[str]", seed: int) -> None:
        self.home, self.process = home, process
        self._rng, self._clock = random.Random(seed), SystemClock()

    def claimed(self, kind: str) -> Observed | None:
        """The job of *kind* that is running at present."""
        query = "SELECT attempts, outputs FROM jobs WHERE kind = ? AND state = 'claimed' ORDER BY number LIMIT 1"
        if not self.home.database.exists():
            return None
        try:
            rows = self.home.ask(query, kind)
        except (apsw.CantOpenError, apsw.SQLError):
            return None  # the store is being made just now
        for attempts, outputs in rows:
            left = json.loads(outputs)
            return Observed(attempts, left[-1]["blob"] if left else None, self._clock.tick())
        return None

    async def until(
        self, kind: str, *, attempts: int = 1, after: Observed | None = None, with_checkpoint: bool = True
    ) -> Observed:
        """Wait for a job of *kind* in this attempt or a later one, and for a checkpoint other than *after*'s."""
        result: list[Observed] = []

        def reached() -> bool:
            assert self.process.poll() is None, self.process.communicate()[0][-3000:]
            observed = self.claimed(kind)
            if observed is None or observed.attempts < attempts:
                return False
            if with_checkpoint and (
                observed.checkpoint is None or (after is not None and observed.checkpoint == after.checkpoint)
            ):
                return False
            result.append(observed)
            return True

        await wait_until(reached, PATIENCE_SECONDS)
        return result[-1]

    async def kill(self, within_seconds: float) -> None:
        """SIGKILL to every worker of the run, at a random moment *within_seconds* from now."""
        assert await asyncio.to_thread(outlived, self.process, self._rng.uniform(0.0, within_seconds))
        for pid in self.home.orphans():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def checkpoint(self, observed: Observed) -> dict[str, tensors.Array]:
        """The content of the checkpoint of *observed*."""
        [path] = self.home.path.glob(f"blobs/*/*/{observed.checkpoint}")
        return tensors.unpack(path.read_bytes(), BATCH_BYTES_MAX)[0]


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

        before, after = watch.checkpoint(last), watch.checkpoint(again)
        games = len(before["numbers"])
        assert last.at - first.at < GAMES_KEPT_SECONDS + LATE_SECONDS
        assert games > len(watch.checkpoint(first)["numbers"]) > 0
        assert after["numbers"][:games].tolist() == before["numbers"].tolist()
        assert np.array_equal(after["done.moves"][: len(before["done.moves"])], before["done.moves"])
        assert len(after["numbers"]) > games


async def kill_the_others(path: Path) -> None:
    """A player, then an exporter, then the trainer of the output of those two."""
    async with running(path, "games_per_batch = 64\ngames_per_export = 128", seed=4) as watch:
        await watch.until("play", with_checkpoint=False)
        await watch.kill(within_seconds=0.5)
        await watch.until("export", with_checkpoint=False)
        await watch.kill(within_seconds=0.02)
        first = await watch.until("train")
        last = await watch.until("train", after=first)
        await watch.kill(within_seconds=1.0)
        again = await watch.until("train", attempts=2, after=last)

        tries = dict(watch.home.ask("SELECT kind, max(attempts) FROM jobs WHERE state = 'done' GROUP BY kind"))
        lost = watch.home.ask("SELECT count(*) FROM log WHERE name IN ('data.lost', 'work.buried')")
        assert last.at - first.at < TRAINING_KEPT_SECONDS + LATE_SECONDS
        assert (
            watch.checkpoint(again)["step"][0]
            > watch.checkpoint(last)["step"][0]
            > watch.checkpoint(first)["step"][0]
            > 0
        )
        assert min(tries["play"], tries["export"]) >= 2, f"not every kill hit its target: {tries}"
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
