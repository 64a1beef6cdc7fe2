"""The documented training lock: one program at a time, the loop waits, and a lock ends with its holder."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from compat.subscribers import QUICK, home
from ringrift.jobs import Train
from ringrift.kernel.errors import InvalidId
from ringrift.work.desk import StoreDesk
from ringrift_compat.cluster import distributed_lock
from ringrift_compat.cluster.distributed_lock import acquire_training_lock, training_lock
from ringrift_compat.embedded_node import embedded
from ringrift_compat.tasks.training_coordinator import request_training_slot
from unit.pipeline.story import VARIANT
from wait import until

__all__ = ["home"]
HOLDER = """
import sys
from app.coordination.distributed_lock import acquire_training_lock
print(bool(acquire_training_lock(sys.argv[1], timeout=5.0)), flush=True)
sys.stdin.read()
"""


@contextmanager
def other_program(variant: str = VARIANT) -> Iterator["subprocess.Popen[str]"]:
    """Another program that holds the training lock of *variant*."""
    line = [sys.executable, "-c", HOLDER, variant]
    process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "True\n"
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_lock_is_held_by_one_program_and_ends_with_it() -> None:
    """Another program's lock is not free; a kill frees it at once, and the next holder has a higher fence."""
    lock = acquire_training_lock(VARIANT)
    assert lock is not None
    assert lock.is_held
    assert lock.release()
    with other_program() as process:
        assert acquire_training_lock(VARIANT, timeout=0.0) is None
        process.kill()
        process.wait()
        later = acquire_training_lock(VARIANT, timeout=5.0)
    assert later is not None
    assert later.fence > lock.fence


def test_a_lock_is_held_for_a_block() -> None:
    """The body has it, or None where it is not free in time; afterwards it is free."""
    with training_lock(VARIANT) as lock:
        assert lock is not None
        assert lock.config_key == VARIANT
        with training_lock(VARIANT, timeout=0.0) as second:
            assert second is None
        assert lock.is_held
    assert not lock.is_held
    assert not lock.release()
    with training_lock(VARIANT, timeout=0.0) as again:
        assert again is not None


def test_nothing_else_trains_while_the_lock_is_held() -> None:
    """No slot is given out and no training job is claimed; after the release both are."""
    node = embedded.node()

    async def claim() -> int:
        desk = StoreDesk(node.store, node.clock, node.envelopes, node.settings.work)
        await desk.enqueue([Train(variant=VARIANT, generation=0)])
        return len(await desk.claim({"train"}, 1))

    with training_lock(VARIANT) as lock:
        assert lock is not None
        assert request_training_slot("hex8", 2) is None
        assert embedded.call(claim()) == 0
    assert embedded.call(claim()) == 1


def test_a_slot_that_is_taken_keeps_the_lock_away() -> None:
    """A program that trains without the lock has the slot, so the lock is not given out, and stays free."""
    assert request_training_slot("hex8", 2)

    assert acquire_training_lock(VARIANT, timeout=0.0) is None
    assert acquire_training_lock("hex8_3p", timeout=0.0) is None  # one training on a node at a time


def test_a_lock_is_renewed_while_it_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its holder may rely on it for longer than one renewal lasts."""
    monkeypatch.setattr(distributed_lock, "_LOCK_SECONDS", 0.9)
    monkeypatch.setattr(distributed_lock, "_RENEW_SECONDS", 0.05)
    lock = acquire_training_lock(VARIANT)
    assert lock is not None
    start = embedded.node().clock.tick()

    until(lambda: embedded.node().clock.tick() > start + 1.0, 10.0)

    assert lock.is_held


def test_a_bad_variant_is_refused() -> None:
    """It is an error of the caller, not a lock that is taken."""
    with pytest.raises(InvalidId):
        acquire_training_lock("no variant")


def test_the_setting_says_where_locks_are(home: Path) -> None:
    """With files, the folder of the home has the row of the lock, and it excludes other programs as well."""
    (home / "ringrift.toml").write_text(QUICK + '\n[cluster]\nlocks = "file"\n')
    with other_program():
        assert acquire_training_lock(VARIANT, timeout=0.0) is None

    assert [path.name for path in home.rglob("training*.json")] == [f"training.{VARIANT}.json"]
