"""kill -9 at every failpoint and at random moments: the loop continues, and nothing is lost or counted twice."""

import json
import random
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from e2e.processes import EXIT_FAILPOINT, QUICK, UNMADE, Home, kill, outlived, reached
from ringrift.blobs.folder import Folder
from ringrift.kernel.failpoint import NAMES

VARIANTS = ("hex8_2p", "hex8_3p")
# Two workers on each node, so that jobs of one node are cut off together.
SLOW = QUICK.replace("slots = 1", "slots = 2") + "[work.params]\nfake_slow_seconds = 0.45\nfake_every = 5\n"
# What nothing needs is deleted within seconds, so that kills fall into that too.
SLOW += "[sweep]\nevery_seconds = 1.0\nretention_seconds = 3.0\ngrace_seconds = 3.0\nnewest_min = 0\n"
# Games that rest for a moment are packed, and whatever is there is backed up: kills fall into both.
SLOW += "[upkeep]\nconsolidate_seconds = 1.0\nrest_seconds = 0.0\npack_files_min = 2\n[backup]\nevery_seconds = 1.0\n"
RANDOM_KILLS = 25
STARTING_EVERY = 3
LOOK_SECONDS = 0.1
RUN_SECONDS_MAX = 180.0
LAST = "SELECT position FROM log ORDER BY position DESC LIMIT 1"


@contextmanager
def balanced(home: Home) -> Iterator[list[str]]:
    """Check the conservation of work from outside all the while; the violations."""
    over, problems = threading.Event(), list[str]()

    def watch() -> None:
        while not over.wait(LOOK_SECONDS):
            if home.database.exists():
                try:
                    problems.extend(home.unbalanced())
                except UNMADE:
                    continue

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield problems
    finally:
        over.set()
        watcher.join()


def assert_counted_once(home: Home) -> None:
    """Every announced batch counts exactly once, and the kept ones really exist."""
    batches = home.batches()
    for variant, line in home.lines().items():
        announced = batches.get(variant, {})
        assert set(announced.values()) <= {1}, f"{variant}: a batch was announced twice"
        assert line.counts.batches == len(announced), f"{variant}: {line.counts} of {len(announced)}"
    assert home.ask("SELECT reader, error FROM deliveries") == [], "no built-in reaction fails, whatever is killed"


def assert_present(home: Home) -> None:
    """Every batch in a window lies on some node, in a file of its own or in a pack."""
    window = {batch.blob for line in home.lines().values() for batch in line.window}
    folders = [Folder(path) for path in (home.path / "blobs").iterdir()]
    assert not window.difference(*(folder.have(window) for folder in folders))


def run_until_killed(home: Home, seconds: float, *, started: bool) -> None:
    """A run that is killed after *seconds*, counted from when it plays if it is to be *started*."""
    last = max((position for (position,) in home.ask(LAST)), default=0) if home.has(LAST) else 0
    process = home.start("run", "--iterations", "0", "--variants", ",".join(VARIANTS))
    if started:
        reached(process, lambda: home.has("SELECT 1 FROM log WHERE name = 'node.joined' AND position > ?", last))
        reached(process, lambda: home.has("SELECT 1 FROM jobs WHERE state = 'claimed'"))
    assert outlived(process, seconds), process.communicate()[0][-2000:]
    kill(process)


def run_on(home: Home) -> None:
    """A run without faults makes two more promotions for each variant and ends by itself."""
    goal = max((line.iteration for line in home.lines().values()), default=0) + 2
    code, output = home.run("run", "--iterations", str(goal), "--variants", ",".join(VARIANTS), seconds=RUN_SECONDS_MAX)

    assert code == 0, output[-3000:]
    assert all(line.iteration >= goal for line in home.lines().values())
    assert_counted_once(home)


@pytest.mark.timeout(2 * RUN_SECONDS_MAX)
def test_a_kill_at_every_failpoint_loses_nothing(home: Home, gone: Callable[[Home], bool]) -> None:
    """The process dies at each failpoint in turn; every next start continues from the log."""
    (home.path / "ringrift.toml").write_text(f'{SLOW}place = "{home.path / "place"}"\n')
    rng = random.Random(7)
    with balanced(home) as broken:
        # A restoration has no loop: tests/e2e/test_backup.py kills it.
        for name in (name for name in NAMES if not name.startswith("restore.")):
            failpoint = (name, rng.randint(1, 2 if name.startswith("backup.") else 5))
            process = home.start("run", "--iterations", "0", "--variants", ",".join(VARIANTS), failpoint=failpoint)
            output, _ = process.communicate(timeout=RUN_SECONDS_MAX)

            assert process.returncode == EXIT_FAILPOINT, f"{name} was never passed:\n{output[-2000:]}"
            assert gone(home), f"{name}: workers outlived their node"
            assert_counted_once(home) if home.database.exists() else None
        run_on(home)
    assert_present(home)
    assert broken == []


@pytest.mark.timeout(2 * RUN_SECONDS_MAX)
def test_kills_at_random_moments_lose_nothing(home: Home, gone: Callable[[Home], bool]) -> None:
    """Twenty-five kills at random moments, some of them during start; nothing is lost or counted twice."""
    (home.path / "ringrift.toml").write_text(SLOW)
    rng = random.Random(11)
    with balanced(home) as broken:
        for number in range(RANDOM_KILLS):
            # However slow the machine is, some fall into the start and most into the work.
            starting = number % STARTING_EVERY == 0
            run_until_killed(home, rng.uniform(0.05, 0.5 if starting else 1.2), started=not starting)
            assert gone(home), "workers outlived their node"
            if home.has("SELECT 1 FROM sqlite_master WHERE name = 'links'"):
                assert_counted_once(home)
        run_on(home)
    assert_present(home)
    assert broken == []


@pytest.mark.timeout(2 * RUN_SECONDS_MAX)
def test_a_lost_blob_folder_loses_only_batches_without_a_copy(home: Home, gone: Callable[[Home], bool]) -> None:
    """After a kill that takes a node's blob folder, batches without a copy are reported lost; the loop continues."""
    rng = random.Random(13)
    with balanced(home) as broken:
        for _ in range(8):
            run_until_killed(home, rng.uniform(0.4, 2.1), started=True)
            assert gone(home), "workers outlived their node"
            victim = rng.choice(sorted((home.path / "blobs").iterdir()))
            shutil.rmtree(victim)
            victim.mkdir()
            assert home.run("data", "adopt", victim.name, "--yes")[0] == 0, "else its node would wait for the disk"
            assert_counted_once(home)
        run_on(home)
    events = [json.loads(body) for (body,) in home.ask("SELECT body FROM log WHERE name = 'data.lost'")]
    announced = home.batches()
    for variant, line in home.lines().items():
        lost = [
            event["blob"] for event in events if event["variant"] == variant and event["blob"] in announced[variant]
        ]
        assert line.counts.lost == len(lost) == len(set(lost)), "each lost batch is reported once and counted once"
    assert broken == []
