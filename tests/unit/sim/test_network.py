"""The simulated network loses, delays, doubles and cuts messages, and keeps killed and paused hosts apart."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from ringrift.kernel.errors import NodeAway
from ringrift.sim.loop import _HOST, SimLoop, run
from ringrift.sim.network import Network
from ringrift.wire.ports import Reply, Request

ADDRESS = "http://c:8770"


async def elapse(seconds: float) -> None:
    """Let virtual time go by; this loop never really sleeps."""
    await asyncio.sleep(seconds)


class Office:
    """A service that counts what reaches it, and streams numbers, one a second."""

    def __init__(self) -> None:
        self.verbs: list[str] = []
        self.hosts: set[str] = set()
        self.streams = 0

    async def answer(self, request: Request) -> Reply:
        self.verbs.append(request.verb)
        self.hosts.add(_HOST.get().host)
        if request.verb == "slow":
            await elapse(3.0)
        return Reply(body=request.body)

    async def notes(self, request: Request) -> AsyncIterator[bytes]:
        self.streams += 1
        try:
            for number in range(1000):
                yield str(number).encode()
                await elapse(1.0)
        finally:
            self.streams -= 1


class Stage:
    """A network with a service on host "c" and a client on host "w"."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop, self.network, self.office = loop, Network(Random(5)), Office()
        self.notes: list[int] = []

    async def open(self) -> None:
        ready = self.loop.create_future()

        async def serve() -> None:
            async with self.network.wire("c").serve(ADDRESS, self.office):
                if not ready.done():
                    ready.set_result(None)
                await elapse(1e6)

        self.loop.spawn("c", serve())
        await ready

    async def ask(self, verb: str = "echo", seconds: float = 2.0) -> Reply:
        """Ask from host "w"; an answer is one of this verb's."""
        request = Request(verb=verb, body=verb.encode())
        return await self.loop.spawn("w", self.network.wire("w").request(ADDRESS, request, seconds))

    async def try_many(self, requests: int) -> int:
        """How many of so many requests got a reply."""
        answered = 0
        for number in range(requests):
            with suppress(NodeAway):
                await self.ask(f"echo-{number}", 1.0)
                answered += 1
        return answered

    async def listen(self) -> None:
        async for note in self.network.wire("w").subscribe(ADDRESS, Request(verb="events")):
            self.notes.append(int(note))


def act(story: Callable[[Stage], Awaitable[Any]]) -> Stage:
    """Run *story* on a stage of its own, to its end."""

    async def main(loop: SimLoop) -> Stage:
        stage = Stage(loop)
        await stage.open()
        await story(stage)
        return stage

    return run(1, main)


def test_a_request_runs_on_the_host_of_the_service() -> None:
    """What a service does happens on its own host, whoever asks."""

    async def story(stage: Stage) -> None:
        assert (await stage.ask()).body == b"echo"

    assert act(story).office.hosts == {"c"}


def test_loss_takes_requests_and_replies_alike() -> None:
    """With half of the messages lost a quarter of the requests is answered, and half of them were done."""

    async def story(stage: Stage) -> None:
        stage.network.link("w").loss = 0.5
        assert 50 < await stage.try_many(300) < 100

    assert 120 < len(act(story).office.verbs) < 180


def test_duplicates_are_answered_twice_and_received_once() -> None:
    """A request that arrives twice is served twice; its sender gets one reply."""

    async def story(stage: Stage) -> None:
        stage.network.link("c").duplicates = 1.0
        await stage.try_many(10)
        await elapse(1.0)

    assert len(act(story).office.verbs) == 20


def test_messages_overtake_each_other() -> None:
    """Requests that are on their way at the same time arrive in an order of their own."""

    async def story(stage: Stage) -> None:
        stage.network.link("w").delay_seconds_max = 0.3
        await asyncio.gather(*(stage.ask(f"{number}") for number in range(30)))

    verbs = list(map(int, act(story).office.verbs))
    assert sorted(verbs) == list(range(30)) != verbs


@pytest.mark.parametrize(("source", "target", "done"), [("w", "c", 0), ("c", "w", 1)])
def test_a_cut_of_one_way_loses_that_way_alone(source: str, target: str, done: int) -> None:
    """Behind a cut of the way there nothing is done; behind one of the way back it is done, and nobody learns it."""

    async def story(stage: Stage) -> None:
        stage.network.cut(source, target, both_ways=False)
        with pytest.raises(NodeAway):
            await stage.ask()
        assert len(stage.office.verbs) == done
        stage.network.heal("w")
        await stage.ask()

    act(story)


def test_a_cut_loses_what_is_on_its_way() -> None:
    """A reply that is on its way when the hosts are parted never arrives."""

    async def story(stage: Stage) -> None:
        asking = stage.loop.create_task(stage.ask("slow", 5.0))
        await elapse(1.0)
        stage.network.cut("w", "c")
        with pytest.raises(NodeAway):
            await asking

    assert act(story).office.verbs == ["slow"]


def test_a_killed_service_breaks_what_is_open_and_then_refuses() -> None:
    """The kernel of a killed process ends its connections, and refuses new ones at once."""

    async def story(stage: Stage) -> None:
        asking = stage.loop.create_task(stage.ask("slow", 60.0))
        await elapse(1.0)
        stage.loop.kill("c")
        stage.network.end_process("c")
        for attempt in (asking, stage.ask("slow", 60.0)):
            with pytest.raises(NodeAway):
                await attempt
        assert stage.loop.time() < 2.0

    act(story)


def test_a_paused_service_answers_when_it_goes_on() -> None:
    """Requests to a stopped process wait in its socket."""

    async def story(stage: Stage) -> None:
        stage.loop.pause("c")
        asking = stage.loop.create_task(stage.ask("echo", 20.0))
        await elapse(9.0)
        assert stage.office.verbs == []
        stage.loop.resume("c")
        assert (await asking).body == b"echo"

    act(story)


def test_a_stream_is_whole_and_in_order_over_a_bad_link() -> None:
    """Loss, delay and duplicates slow a stream down; it misses nothing."""

    async def story(stage: Stage) -> None:
        link = stage.network.link("w")
        link.loss, link.delay_seconds_max, link.duplicates = 0.3, 0.5, 0.3
        stage.loop.spawn("w", stage.listen())
        await elapse(120.0)

    notes = act(story).notes
    assert notes == list(range(len(notes)))
    assert len(notes) > 30


def test_a_stream_breaks_on_both_sides_of_a_partition() -> None:
    """Within some seconds the reader knows that it reads nothing, and the service that nobody reads."""

    async def story(stage: Stage) -> None:
        listening = stage.loop.spawn("w", stage.listen())
        await elapse(5.0)
        stage.network.cut("c", "w", both_ways=False)
        with pytest.raises(NodeAway):
            await listening
        await elapse(15.0)

    stage = act(story)
    assert stage.office.streams == 0
    assert len(stage.notes) in (4, 5, 6)


def test_a_stream_of_a_killed_reader_ends() -> None:
    """A service does not stream for ever to a host that has gone."""

    async def story(stage: Stage) -> None:
        stage.loop.spawn("w", stage.listen())
        await elapse(5.0)
        assert stage.office.streams == 1
        stage.loop.kill("w")
        await elapse(15.0)

    assert act(story).office.streams == 0


def test_a_link_heals_completely() -> None:
    """After a heal every message passes again."""

    async def story(stage: Stage) -> None:
        stage.network.link("w").loss = 1.0
        stage.network.cut("w", "c")
        assert await stage.try_many(2) == 0
        stage.network.heal("w")
        assert await stage.try_many(20) == 20

    act(story)
