"""Stories: events know their cause, become spans once they are durable, and are shown as a tree."""

import json
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from collector import Collector, Seen, collecting
from contract.engines import Engine, HandClock, envelope
from ringrift.bus import trace
from ringrift.bus.delivery import Courier, Reader
from ringrift.bus.recording import open_recorder
from ringrift.bus.scribe import Scribe
from ringrift.bus.spans import span
from ringrift.cli.trace import INDENTED_MAX, NESTED_MAX, find, tree
from ringrift.events.base import Envelope, Event
from ringrift.events.data import Lost
from ringrift.kernel.errors import UnknownName
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import BusSettings, TraceSettings
from ringrift.store.ports import Store, Tx
from waiting import wait_until


class Office:
    """A node's way into the log and out of it, with a reader that answers each event with another, a few times."""

    def __init__(self, store: Store, scribe: Scribe, clock: HandClock) -> None:
        self._store, self._scribe = store, scribe
        self._courier = Courier(store, clock, scribe, BusSettings().redelivery, 16)
        self.reader = Reader(name="echo", wants=frozenset({Lost.name()}), react=self._react)

    async def say(self, blob: str) -> Envelope:
        """One event that begins a story."""
        async with self._store.begin() as tx:
            [told] = await tx.append([self._scribe.wrap(Lost(variant="v", blob=blob, reason="gone"))])
        return told

    async def answer(self) -> None:
        """Deliver until nothing is left."""
        place = await self._courier.enrol(self.reader)
        while (new := await self._courier.take(self.reader, place)) != place:
            place = new

    async def _react(self, event: Event, envelope: Envelope, tx: Tx) -> None:
        assert isinstance(event, Lost)
        if event.blob.startswith("bad"):
            await tx.append([self._scribe.wrap(Lost(variant="v", blob="undone", reason="never"))])
            raise ValueError("bad")
        if len(event.blob) < 3:
            answers = [Lost(variant="v", blob=event.blob + letter, reason="echo") for letter in "xy"]
            await tx.append([self._scribe.wrap(answer, cause=envelope) for answer in answers])


@asynccontextmanager
async def opened(store: Store, node: str = "n1", **settings: Any) -> AsyncIterator[Office]:
    """The office of *node*, with its recorder."""
    clock = HandClock()
    ids = Ids(clock, Random(node))
    quick = TraceSettings(**{"flush_seconds": 0.02, "send_seconds_max": 0.5, "stop_seconds_max": 2.0} | settings)
    async with open_recorder(quick, node, clock, ids, store) as recorder:
        yield Office(store, Scribe(node, clock, ids, recorder), clock)


def by_blob(there: Collector, envelopes: list[Envelope]) -> dict[str, Seen]:
    """The spans of events by what they are about."""
    spans = {span.id: span for span in there.spans()}
    return {json.loads(one.body)["blob"]: spans[trace.span_of(one.id)] for one in envelopes}


async def everything(store: Store) -> list[Envelope]:
    """The whole log."""
    async with store.read() as view:
        return list(await view.read(0, 1000))


# -- spans -------------------------------------------------------------------------------------------------------------


def test_events_and_their_deliveries_are_spans_of_one_trace(engine: Engine) -> None:
    """Each event belongs to the delivery it was said in, each delivery to its event, the first one to nobody."""

    async def story(store: Store) -> list[Envelope]:
        async with opened(store, endpoint=there.url) as office:
            await office.say("a")
            await office.answer()
        return await everything(store)

    with collecting() as there:
        log = engine.run(story)

    events = by_blob(there, log)
    deliveries = {span.parent: span for span in there.named("echo data.lost")}
    assert set(events) == {"a", "ax", "ay", "axx", "axy", "ayx", "ayy"}
    assert {span.trace for span in there.spans()} == {log[0].trace}
    assert events["a"].parent == ""
    assert events["axy"].parent == deliveries[events["ax"].id].id
    assert events["ayx"].parent == deliveries[events["ay"].id].id
    assert set(deliveries) == {span.id for span in events.values()}
    assert (events["a"].tags["ringrift.position"], events["a"].node) == (1, "n1")
    assert deliveries[events["a"].id].tags["ringrift.reader"] == "echo"


def test_what_was_undone_is_no_event_and_its_delivery_says_why(engine: Engine) -> None:
    """A reaction that fails leaves spans of its tries with the error, but none of the event that never was."""

    async def story(store: Store) -> None:
        async with opened(store, endpoint=there.url) as office:
            await office.say("bad")
            await office.answer()

    with collecting() as there:
        engine.run(story)

    assert {span.error for span in there.named("echo data.lost")} == {"ValueError: bad"}
    assert len(there.named("data.lost")) == 1


def test_ones_own_spans_lie_between(engine: Engine) -> None:
    """What is published inside a span belongs to it."""

    async def story(store: Store) -> Envelope:
        async with opened(store, endpoint=there.url) as office:
            with span("by hand", reason="test"):
                return await office.say("abc")

    with collecting() as there:
        told = engine.run(story)

    [own] = there.named("by hand")
    [event] = there.named("data.lost")
    assert (event.parent, event.trace) == (own.id, own.trace)
    assert (told.trace, told.cause) == (own.trace, "")
    assert own.tags == {"reason": "test"}


def test_each_node_keeps_its_own_events(engine: Engine) -> None:
    """Two nodes on one store: every event is one span, of the node that said it."""

    async def story(store: Store) -> None:
        async with opened(store, "n1", endpoint=there.url) as one, opened(store, "n2", endpoint=there.url) as two:
            await one.say("abc")
            await two.say("def")

    with collecting() as there:
        engine.run(story)

    assert sorted(span.node for span in there.named("data.lost")) == ["n1", "n2"]


def test_a_collector_that_refuses_or_hangs_disturbs_nobody(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """Publishing goes on while the collector says 503 or nothing; the loss is counted and told, and the end comes."""

    async def story(store: Store) -> int:
        async with opened(store, endpoint=there.url, queue_max=5, stop_seconds_max=0.1) as office:
            for number in range(50):
                await office.say(f"{number:03}")
            await wait_until(lambda: there.asked > 0)
            there.status, there.hangs = 200, True
            for number in range(50):
                await office.say(f"{number:03}")
        return len(await everything(store))

    with collecting() as there, caplog.at_level(logging.INFO):
        there.status = 503
        count = engine.run(story)

    assert count == 100
    assert "spans were lost" in caplog.text
    assert re.search(r"n1: \d+ spans were sent, [1-9]\d* lost", caplog.text)


def test_with_debug_every_span_is_a_line_of_the_log(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """Without a collector the events and deliveries can still be seen, each with its trace."""

    async def story(store: Store) -> Envelope:
        async with opened(store, debug=True) as office:
            told = await office.say("abc")
            await office.answer()
            return told

    with caplog.at_level(logging.DEBUG, "ringrift.trace"):
        told = engine.run(story)

    lines = [record.getMessage() for record in caplog.records if record.name == "ringrift.trace"]
    event, parent = trace.span_of(told.id), trace.span_of(told.id)
    assert any(line.startswith(f"event data.lost trace={told.trace} span={event} parent=-") for line in lines)
    assert any(line.startswith("delivery echo data.lost") and f"parent={parent}" in line for line in lines)


def test_without_settings_nothing_is_kept(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """A node that is not asked to keep spans only ties its events together."""

    async def story(store: Store) -> list[Envelope]:
        async with opened(store) as office:
            await office.say("a")
            await office.answer()
        return await everything(store)

    with caplog.at_level(logging.DEBUG, "ringrift.trace"):
        log = engine.run(story)

    assert len({one.trace for one in log}) == 1
    assert [one.name for one in caplog.records if one.name == "ringrift.trace"] == []


# -- the tree ----------------------------------------------------------------------------------------------------------


async def told(store: Store) -> list[Envelope]:
    """A story of seven events, and one that has nothing to do with it."""
    async with opened(store) as office:
        await office.say("a")
        await office.say("other")
        await office.answer()
    return await everything(store)


def test_a_story_is_shown_as_a_tree(engine: Engine) -> None:
    """Each event stands behind the one that caused it, indented by its level, with position, time, node and body."""

    async def story(store: Store) -> str:
        log = await told(store)
        return await tree(store, log[3].id)

    head, *lines = engine.run(story).splitlines()

    shown = [(line[:1], line.split("blob=")[1].split(",")[0]) for line in lines]
    assert head.endswith(": 7 events on n1")
    assert [blob for _, blob in shown] == ["a", "ax", "axx", "axy", "ay", "ayx", "ayy"]
    assert [mark for mark, _ in shown] == [" ", " ", " ", " ", ">", " ", " "]
    assert [line.index("data.lost") - lines[0].index("data.lost") for line in lines] == [0, 2, 4, 4, 2, 4, 4]
    assert "2023-11-1" in lines[0]
    assert "  n1  data.lost  variant=v, blob=a, reason=gone" in lines[0]


def test_names_of_blobs_are_shown_short(engine: Engine) -> None:
    """Of the 64 digits of a blob the first ten are enough to know it by."""

    async def story(store: Store) -> str:
        async with opened(store) as office:
            return await tree(store, (await office.say("0123456789abcdef" * 4)).id)

    assert engine.run(story).endswith("variant=v, blob=0123456789, reason=gone")


def test_a_trace_is_shown_by_its_own_id(engine: Engine) -> None:
    """The id of the trace shows the same story, nested for programs."""

    async def story(store: Store) -> dict[str, Any]:
        log = await told(store)
        found: dict[str, Any] = json.loads(await tree(store, log[0].trace, machine=True))
        return found

    found = engine.run(story)

    [root] = found["then"]
    assert (found["events"], found["cut"], found["asked"]) == (7, False, "")
    assert root["body"]["blob"] == "a"
    assert [one["body"]["blob"] for one in root["then"]] == ["ax", "ay"]
    assert [one["body"]["blob"] for one in root["then"][1]["then"]] == ["ayx", "ayy"]
    assert root["then"][1]["cause"] == root["id"]


def test_a_long_story_is_cut_and_says_so(engine: Engine) -> None:
    """Only so many events are shown, and the last line says that there are more."""

    async def story(store: Store) -> tuple[str, dict[str, Any]]:
        log = await told(store)
        return await tree(store, log[0].id, 3), json.loads(await tree(store, log[0].id, 3, machine=True))

    text, found = engine.run(story)

    assert len(text.splitlines()) == 5
    assert text.splitlines()[-1] == "… there are more than these 3"
    assert (found["events"], found["cut"]) == (3, True)


@pytest.mark.parametrize("id", ["nobody", "0" * 32, ""])
def test_an_unknown_id_is_refused(engine: Engine, id: str) -> None:
    """What is neither an event nor a trace of this log has no tree."""

    async def story(store: Store) -> None:
        await told(store)
        await tree(store, id)

    with pytest.raises(UnknownName, match="event or trace"):
        engine.run(story)


def test_a_story_that_goes_on_for_ever_still_fits(engine: Engine) -> None:
    """Of a thousand events in a row all are shown, though not all of their levels."""
    row = [envelope(f"e{number}") for number in range(1000)]

    async def story(store: Store) -> tuple[list[str], dict[str, Any]]:
        async with store.begin() as tx:
            for number, one in enumerate(row):
                cause = f"e{number - 1}" if number else ""
                await tx.append([Envelope(id=one.id, name=one.name, body=b"{}", trace="t" * 32, cause=cause, node="n")])
        return (await tree(store, "e500")).splitlines(), json.loads(await tree(store, "e500", machine=True))

    lines, found = engine.run(story)

    depth, inner = 0, found["then"]
    while inner:
        depth, last, inner = depth + 1, inner[-1], inner[-1]["then"]
    assert len(lines) == 1001
    assert lines[-1].index("custom.said") == lines[INDENTED_MAX + 1].index("custom.said")
    assert depth == NESTED_MAX + 1
    assert (last["id"], last["level"]) == ("e999", 999)


def test_an_event_whose_cause_is_gone_is_a_root(engine: Engine) -> None:
    """When the beginning of a story was compacted away the rest is still shown; an event without a trace is alone."""

    async def story(store: Store) -> list[int]:
        late = Envelope(id="late", name="custom.said", body=b"{}", trace="t" * 32, cause="gone")
        old = Envelope(id="old", name="custom.said", body=b"{}")
        async with store.begin() as tx:
            await tx.append([late, old, envelope("another")])
        return [len((await find(store, id)).steps) for id in ("late", "old")]

    assert engine.run(story) == [1, 1]
