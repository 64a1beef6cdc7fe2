"""The documented bandwidth of programs: reserved across processes, left alone by nodes, kept by rsync."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from compat.subscribers import QUICK, async_test, home
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import InvalidId
from ringrift.kernel.transfer_settings import BandwidthSettings
from ringrift.sync.reservations import Reservations
from ringrift.sync.shaper import Shaper
from ringrift_compat.embedded_node import embedded
from ringrift_compat.sync.bandwidth_manager import (
    BYTES_PER_MBIT,
    TransferPriority,
    get_bandwidth_manager,
    release_bandwidth,
    request_bandwidth,
)
from ringrift_compat.sync.sync_bandwidth import BandwidthCoordinatedRsync, BatchRsync
from ringrift_compat.sync.sync_mutex import acquire_sync_lock, release_sync_lock, sync_lock
from wait import until, wait_until

__all__ = ["home"]
HOLDER = """
import sys
from app.coordination.bandwidth_manager import request_bandwidth
from app.coordination.sync_mutex import acquire_sync_lock
print(request_bandwidth(sys.argv[1], mbps=4.0).granted, bool(acquire_sync_lock(sys.argv[1], timeout=0.0)), flush=True)
sys.stdin.read()
"""


def limit(folder: Path, text: str) -> None:
    """Set the branch ``bandwidth``."""
    (folder / "ringrift.toml").write_text(f"{QUICK}\n[bandwidth]\n{text}\n")


def waiting(host: str) -> int:
    """How many wait for *host*."""
    return int(get_bandwidth_manager().get_status()["hosts"].get(host, {"waiting": 0})["waiting"])


def test_bandwidth_is_reserved_within_the_limit_of_its_host(home: Path) -> None:
    """10 megabits: 6 and then no 6 more, until the first are released; another host is not concerned."""
    limit(home, "hosts = {far = 1.25e6}")
    first = request_bandwidth("far", mbps=6.0)
    assert first

    second = request_bandwidth("far", mbps=6.0)
    assert not second
    assert "far" in second.reason
    assert request_bandwidth("near", mbps=600.0)
    status = get_bandwidth_manager().get_status()
    assert (
        status["hosts"]["far"] | {"limit_mbps": 10.0, "allocated_mbps": 6.0, "active": 1, "waiting": 0}
        == status["hosts"]["far"]
    )
    assert (status["active"], status["waiting"]) == (2, 0)
    assert release_bandwidth(first, bytes_transferred=1000)
    assert not release_bandwidth(first)
    assert request_bandwidth("far", mbps=6.0)
    assert get_bandwidth_manager().get_status()["hosts"]["far"]["bytes_transferred"] == 1000


def test_transfers_at_once_are_limited(home: Path) -> None:
    """Two for a host; without a rate of its own each gets an even share of what the host may have."""
    limit(home, "transfers_per_host_max = 2\nhost_bytes_per_second = 1e6")
    allocations = [request_bandwidth("far") for _ in range(3)]

    assert [allocation.granted for allocation in allocations] == [True, True, False]
    assert allocations[0].bandwidth_mbps == 4.0


@async_test
async def test_the_most_urgent_is_granted_first() -> None:
    """Of those that wait, by priority."""
    embedded.node()
    order: list[str] = []

    async def move(name: str, priority: TransferPriority) -> None:
        allocation = await embedded.post(get_bandwidth_manager().request("far", 1.0, priority, timeout=30.0))
        order.append(name)
        await embedded.post(get_bandwidth_manager().release(allocation.id))

    manager = get_bandwidth_manager()
    holders = [await embedded.post(manager.request("far", 1.0)) for _ in range(4)]
    assert all(holders)
    low = asyncio.ensure_future(move("low", TransferPriority.LOW))
    await wait_until(lambda: asyncio.to_thread(lambda: waiting("far") == 1))
    critical = asyncio.ensure_future(move("critical", TransferPriority.CRITICAL))
    await wait_until(lambda: asyncio.to_thread(lambda: waiting("far") == 2))
    await embedded.post(manager.release(holders[0].id))
    await asyncio.gather(low, critical)

    assert order == ["critical", "low"]


def test_what_a_killed_program_held_is_free_again(home: Path) -> None:
    """Its bandwidth and its lock end with it."""
    limit(home, "hosts = {far = 625e3}")
    process = subprocess.Popen([sys.executable, "-c", HOLDER, "far"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"True True\n"
    assert not request_bandwidth("far", mbps=4.0)
    assert acquire_sync_lock("far", timeout=0.0) is None

    process.kill()
    process.communicate()

    assert request_bandwidth("far", mbps=4.0)
    lock = acquire_sync_lock("far", timeout=0.0)
    assert lock is not None
    assert release_sync_lock(lock)


def test_what_is_not_renewed_expires(home: Path) -> None:
    """After bandwidth.expiry_seconds another one gets it; renewed in time it stays."""
    limit(home, "expiry_seconds = 0.5\ntransfers_max = 1")
    first = request_bandwidth("far")
    second = request_bandwidth("far", timeout=10.0)
    assert second.granted
    manager = get_bandwidth_manager()

    assert not embedded.call(manager.renew(first.id))
    start = embedded.node().clock.tick()
    until(lambda: embedded.call(manager.renew(second.id)) and embedded.node().clock.tick() > start + 1.0)
    assert not request_bandwidth("far")


def test_a_node_leaves_what_is_reserved_to_the_program(home: Path) -> None:
    """Its transfers get what is left: 8 of 16 megabits, measured within a tenth."""
    limit(home, "bytes_per_second = 2e6")
    assert request_bandwidth("far", mbps=8.0)
    node, clock, size = embedded.node(), SystemClock(), 1_500_000

    async def measure() -> float:
        shaper = Shaper(BandwidthSettings(bytes_per_second=2e6), clock, Reservations(node.store, clock).in_force)
        async with shaper.place("other", "mirror") as place:
            await place.take(1)  # the rows are read
            start = clock.tick()
            await place.take(size)
            return size / (clock.tick() - start)

    rates = list[float]()
    while len(rates) < 5 and max(rates, default=0.0) < 0.9e6:  # a busy machine makes a measurement slow
        rates.append(embedded.call(measure()))
    assert max(rates) == pytest.approx(1e6, rel=0.1)


def test_a_lock_is_for_one_program_and_one_operation() -> None:
    """The same host and operation exclude each other; another operation, or another host that looks alike, does not."""
    with sync_lock("gpu-1", "push") as lock:
        assert lock is not None
        assert lock.is_held
        with sync_lock("gpu-1", "push", timeout=0.0) as second:
            assert second is None
        for host, operation in (("gpu-1", "pull"), ("gpu-1", ""), ("gpu_1", "push")):
            with sync_lock(host, operation, timeout=0.0) as other:
                assert other is not None
    assert not lock.is_held


@async_test
async def test_rsync_copies_at_the_rate_that_it_was_given(tmp_path: Path) -> None:
    """The bytes are there and counted, the rate is kept within a tenth, and the place is free afterwards."""
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "games").write_bytes(bytes(range(256)) * 12_000)
    manager = get_bandwidth_manager()

    result = await BandwidthCoordinatedRsync().sync(f"{tmp_path}/from/", tmp_path / "to", "far", "high", mbps=12.0)

    assert (result.success, result.error, result.bytes_transferred) == (True, "", 3_072_000)
    assert (tmp_path / "to" / "games").read_bytes() == (tmp_path / "from" / "games").read_bytes()
    assert result.bytes_transferred / result.duration_seconds <= 1.1 * 12.0 * BYTES_PER_MBIT
    status = await embedded.post(manager.status())
    assert (status["active"], status["hosts"]["far"]["bytes_transferred"]) == (0, 3_072_000)


@async_test
async def test_a_failed_copy_says_why(tmp_path: Path) -> None:
    """A folder that is not there, and a host that cannot be reached: no exception, a reason, and a free place."""
    rsync = BandwidthCoordinatedRsync(timeout=5.0)
    missing = await rsync.sync(f"{tmp_path}/none/", tmp_path / "to", "far")
    away = await rsync.sync(tmp_path, "ubuntu@host.invalid:/data/", "far")

    assert not missing.success
    assert missing.error
    assert not away.success
    assert away.error
    assert (await embedded.post(get_bandwidth_manager().status()))["active"] == 0


@pytest.mark.parametrize(
    "dest",
    [
        "-oProxyCommand=sh:/x",
        "user@-oProxyCommand=sh:/x",
        "host:relative",
        "host:/x\n",
        "ho st:/x",
        "a:/x",
        "",
        "rsync://h/x",
        "h::x",
    ],
)
@async_test
async def test_no_word_of_a_path_becomes_an_option(tmp_path: Path, dest: str) -> None:
    """A destination that ssh or rsync could read as something else is refused before anything is started."""
    source = "b:/y" if dest == "a:/x" else str(tmp_path)
    with pytest.raises(InvalidId):
        await BandwidthCoordinatedRsync().sync(source, dest, "far")


@async_test
async def test_a_path_that_looks_like_an_option_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes behind ``--``."""
    (tmp_path / "-e sh").write_text("x")
    monkeypatch.chdir(tmp_path)
    result = await BandwidthCoordinatedRsync().sync("-e sh", "--delete", "far")

    assert (result.success, (tmp_path / "--delete").read_text()) == (True, "x")


@async_test
async def test_a_batch_gives_a_result_for_each(tmp_path: Path) -> None:
    """In the order in which they were added, whatever became of each."""
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    batch = BatchRsync().add(f"{tmp_path}/a", f"{tmp_path}/x", "far").add(f"{tmp_path}/none", f"{tmp_path}/y", "far")

    results = await batch.sync([(f"{tmp_path}/b", f"{tmp_path}/z", "near")])

    assert [result.success for result in results] == [True, False, True]
    assert ((tmp_path / "x").read_text(), (tmp_path / "z").read_text()) == ("a", "b")
    assert await batch.sync() == []


@async_test
async def test_copies_to_one_destination_do_not_overlap(tmp_path: Path) -> None:
    """The second waits for the first, and says so if it does not end in time."""
    (tmp_path / "a").write_text("a")
    lock = await asyncio.to_thread(acquire_sync_lock, "far", f"{tmp_path}/x", 0.0)
    assert lock is not None

    result = await BandwidthCoordinatedRsync(timeout=0.1).sync(f"{tmp_path}/a", f"{tmp_path}/x", "far")

    assert not result.success
    assert "another program" in result.error
    await asyncio.to_thread(lock.release)


def test_a_priority_has_its_documented_names() -> None:
    """In their order, and by any spelling; another word is refused."""
    assert sorted(TransferPriority) == [TransferPriority[name] for name in ("LOW", "NORMAL", "HIGH", "CRITICAL")]
    assert TransferPriority.parse("High") is TransferPriority.HIGH
    with pytest.raises(ValueError, match="no priority"):
        TransferPriority.parse("soon")
