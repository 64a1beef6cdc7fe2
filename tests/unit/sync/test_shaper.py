"""Bytes pass at the rates that were set, and classes share them by weight."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import Busy, SettingsError
from ringrift.kernel.transfer_settings import TRANSFER_CLASSES, BandwidthSettings
from ringrift.sync.bandwidth import total_rate
from ringrift.sync.shaper import Shaper
from unit.sync.traffic import CHUNK, KB, MB, Traffic, places_of, simulate

EIGHT = 8 * 3600.0  # eight o'clock


@pytest.mark.parametrize("chunk", [4000, CHUNK])
@pytest.mark.parametrize(
    ("limits", "own", "expected"),
    [
        ({"bytes_per_second": 2 * MB}, 0.0, 2 * MB),
        ({"host_bytes_per_second": MB}, 0.0, MB),
        ({"hosts": {"far": 500 * KB}, "host_bytes_per_second": 10 * MB}, 0.0, 500 * KB),
        ({"classes": {"mirror": 300 * KB}}, 0.0, 300 * KB),
        ({}, 700 * KB, 700 * KB),
        ({"bytes_per_second": 5 * MB, "hosts": {"far": 2 * MB}, "classes": {"mirror": MB}}, 3 * MB, MB),
    ],
)
def test_every_limit_holds_within_a_tenth(limits: dict[str, Any], own: float, expected: float, chunk: int) -> None:
    """In all, with a host, for a class, for one transfer alone: the slowest counts, whatever the size of the chunks."""

    async def story(make: Callable[..., Shaper]) -> None:
        traffic = Traffic(make(**limits))
        traffic.start("a", chunk=chunk, rate=own)

        rates = await traffic.measure(60.0 if chunk == CHUNK else 20.0)

        assert rates["a"] == pytest.approx(expected, rel=0.1)
        await traffic.stop()

    simulate(story)


def test_transfers_share_one_limit() -> None:
    """Five transfers of different chunks, hosts and classes together pass what one would, and none is starved."""

    async def story(make: Callable[..., Shaper]) -> None:
        traffic = Traffic(make(bytes_per_second=4 * MB))
        for place, transfer_class in enumerate(TRANSFER_CLASSES):
            traffic.start(transfer_class, transfer_class, f"host-{place}", chunk=50_000 * (place + 1))

        rates = await traffic.measure(60.0)

        assert sum(rates.values()) == pytest.approx(4 * MB, rel=0.1)
        assert min(rates.values()) > 50 * KB
        await traffic.stop()

    simulate(story)


@pytest.mark.parametrize(("weights", "share"), [({}, 8.0), ({"champion": 3.0, "mirror": 1.0}, 3.0)])
def test_classes_share_by_weight(weights: dict[str, float], share: float) -> None:
    """A class gets its weight's share however many transfers it has, and those of one class get the same."""

    async def story(make: Callable[..., Shaper]) -> None:
        traffic = Traffic(make(bytes_per_second=MB, weights=weights))
        traffic.start("champion", "champion")
        for name in ("one", "two", "three"):
            traffic.start(name, "mirror")

        rates = await traffic.measure(120.0)

        mirrors = [rates[name] for name in ("one", "two", "three")]
        assert rates["champion"] / sum(mirrors) == pytest.approx(share, rel=0.1)
        assert min(mirrors) == pytest.approx(max(mirrors), rel=0.15)
        await traffic.stop()

    simulate(story)


def test_a_class_that_was_idle_has_no_claim_on_the_past() -> None:
    """One that comes late shares from then on; it does not get all until it has caught up."""

    async def story(make: Callable[..., Shaper]) -> None:
        traffic = Traffic(make(bytes_per_second=MB, weights={"champion": 1.0, "mirror": 1.0}))
        traffic.start("early", "mirror")
        await traffic.measure(60.0)
        traffic.start("late", "champion")

        rates = await traffic.measure(10.0)

        assert rates["early"] == pytest.approx(rates["late"], rel=0.15)
        await traffic.stop()

    simulate(story)


def test_a_slow_host_does_not_hold_others_up() -> None:
    """What one host cannot take goes to another."""

    async def story(make: Callable[..., Shaper]) -> None:
        traffic = Traffic(make(bytes_per_second=4 * MB, hosts={"slow": 100 * KB}))
        traffic.start("slow", "urgent", "slow")
        traffic.start("fast", "mirror", "fast")

        rates = await traffic.measure(60.0)

        assert rates["slow"] == pytest.approx(100 * KB, rel=0.1)
        assert rates["fast"] == pytest.approx(3.9 * MB, rel=0.1)
        await traffic.stop()

    simulate(story)


def test_a_cancelled_transfer_leaves_nothing_behind() -> None:
    """Cancelled while it waits for bytes or for a place: the others get all."""

    async def story(make: Callable[..., Shaper]) -> None:
        traffic = Traffic(make(bytes_per_second=MB, transfers_max=2))
        for name in ("a", "b", "c"):
            traffic.start(name, chunk=10 * MB)
        await traffic.measure(1.0)
        await traffic.stop("b", "c")

        rates = await traffic.measure(100.0)

        assert rates["a"] == pytest.approx(MB, rel=0.11)
        assert places_of(traffic.shaper)[0] == {"far": 1}
        await traffic.stop()

    simulate(story)


@pytest.mark.parametrize(
    ("now", "expected"),
    [(EIGHT - 1, 9.0), (EIGHT, 2.0), (EIGHT + 4 * 3600 - 1, 2.0), (EIGHT + 4 * 3600, 9.0), (23 * 3600, 3.0), (60, 3.0)],
)
def test_the_timetable_says_how_fast_at_which_hours(now: float, expected: float) -> None:
    """Hours begin with their first minute and end before their last; some go over midnight; otherwise all the day."""
    limits = BandwidthSettings(bytes_per_second=9.0, timetable={"08:00-12:00": 2.0, "22:30-01:00": 3.0})

    assert total_rate(limits, 1_700_006_400.0 // 86_400 * 86_400 + now) == expected


def test_a_new_hour_changes_the_rate_of_what_runs() -> None:
    """A transfer that began before the hour goes on at the rate of the hour."""

    async def story(make: Callable[..., Shaper]) -> None:
        # The simulation begins at 22:13:20 UTC.
        traffic = Traffic(make(bytes_per_second=100 * KB, timetable={"22:15-23:00": 2 * MB}))
        traffic.start("a", chunk=CHUNK)
        early = await traffic.measure(99.0)
        await traffic.measure(5.0)

        late = await traffic.measure(60.0)

        assert early["a"] == pytest.approx(100 * KB, rel=0.15)
        assert late["a"] == pytest.approx(2 * MB, rel=0.1)
        await traffic.stop()

    simulate(story)


def test_what_is_reserved_is_left_to_others() -> None:
    """Transfers slow down by what programs have reserved, with that host and in all, and never stand still."""
    rows: dict[str, float] = {}

    async def reserved() -> Mapping[str, float]:
        return dict(rows)

    async def story(make: Callable[..., Shaper]) -> None:
        traffic = Traffic(make(reserved, bytes_per_second=2 * MB, hosts={"far": MB}))
        traffic.start("far", host="far")
        assert (await traffic.measure(20.0))["far"] == pytest.approx(MB, rel=0.1)
        rows["far"] = 400 * KB
        await traffic.measure(3.0)
        assert (await traffic.measure(20.0))["far"] == pytest.approx(600 * KB, rel=0.1)
        rows["other"] = 9 * MB
        await traffic.measure(3.0)
        assert (await traffic.measure(60.0))["far"] == pytest.approx(100 * KB, rel=0.1)
        await traffic.stop()

    simulate(story)


def test_a_busy_store_holds_up_no_bytes() -> None:
    """What is reserved cannot be read for the moment: what was read last counts."""
    answers = [{"far": 500_000.0}]

    async def reserved() -> Mapping[str, float]:
        if not answers:
            raise Busy("the store", "it is busy")
        return answers.pop()

    async def story(make: Callable[..., Shaper]) -> None:
        traffic = Traffic(make(reserved, hosts={"far": MB}))
        traffic.start("far")

        rates = await traffic.measure(20.0)

        assert rates["far"] == pytest.approx(500 * KB, rel=0.1)
        await traffic.stop()

    simulate(story)


def test_without_a_limit_nothing_waits() -> None:
    """By the default settings bytes pass without any time going by."""

    async def story(make: Callable[..., Shaper]) -> None:
        shaper, loop = make(), asyncio.get_running_loop()
        start = loop.time()
        async with shaper.place("far", "mirror") as place:
            for _ in range(100):
                await place.take(CHUNK)

        assert loop.time() == start

    simulate(story)


@pytest.mark.parametrize(
    "limits",
    [
        {"classes": {"mirrors": 1.0}},
        {"weights": {"mirror": 0.0}},
        {"hosts": {"a": -1.0}},
        {"timetable": {"8:00-9:00": 1.0}},
        {"timetable": {"08:00-08:00": 1.0}},
        {"timetable": {"24:00-25:00": 1.0}},
    ],
)
def test_a_bad_setting_is_refused(limits: dict[str, Any]) -> None:
    """A class that is none, a weight of nothing, a negative rate or hours that are none."""
    with pytest.raises(SettingsError):
        BandwidthSettings(**limits)


@settings(max_examples=20, deadline=None)
@given(
    total=st.floats(100 * KB, 5 * MB),
    host=st.floats(100 * KB, 5 * MB),
    flows=st.lists(
        st.tuples(st.sampled_from(TRANSFER_CLASSES), st.sampled_from(["x", "y"]), st.integers(20_000, 300_000)),
        min_size=1,
        max_size=6,
    ),
)
def test_no_limit_is_ever_exceeded(total: float, host: float, flows: list[tuple[str, str, int]]) -> None:
    """Whatever competes, the sum for each host and in all stays within a tenth of its limit, and the total is used."""

    async def story(make: Callable[..., Shaper]) -> None:
        traffic = Traffic(make(bytes_per_second=total, host_bytes_per_second=host, transfers_per_host_max=9))
        for place, (transfer_class, name, chunk) in enumerate(flows):
            traffic.start(f"{name}{place}", transfer_class, name, chunk)

        rates = await traffic.measure(10.0)

        largest = max(chunk for _, _, chunk in flows) * len(flows) / 10.0  # of chunks that have passed in part
        hosts = {name: sum(rate for key, rate in rates.items() if key[0] == name) for name in {row[1] for row in flows}}
        assert sum(rates.values()) <= total * 1.1
        assert all(rate <= host * 1.1 for rate in hosts.values())
        assert sum(rates.values()) >= 0.9 * min(total, host * len(hosts)) - largest
        await traffic.stop()

    simulate(story)


def test_real_bytes_pass_at_the_rate() -> None:
    """Over a real socket and a real clock, as the receiver measures it: never above, and within a tenth.

    A machine that does something else for a while makes a measurement slow, so the fastest of some counts.
    """
    rate, size = 4 * MB, 8 * MB

    async def measure() -> float:
        clock, received = SystemClock(), asyncio.get_running_loop().create_future()

        async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(size)
            received.set_result(clock.tick())
            writer.close()

        server = await asyncio.start_server(receive, "127.0.0.1", 0)
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        shaper, start = Shaper(BandwidthSettings(bytes_per_second=rate), clock), clock.tick()
        async with shaper.place("far", "mirror") as place:
            for _ in range(size // (80 * KB)):
                await place.take(80 * KB)
                writer.write(bytes(80 * KB))
                await writer.drain()
        seconds: float = await received - start
        writer.close()
        server.close()
        return size / seconds

    rates = list[float]()
    while len(rates) < 5 and max(rates, default=0.0) < 0.9 * rate:
        rates.append(asyncio.run(measure()))
    assert max(rates) == pytest.approx(rate, rel=0.1)
