"""Traces: events record their cause, become spans once they are durable, and are rows as a tree."""

import json
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from collector import Collector, ReceivedSpan, collecting
from contract.engines import Engine, ManualClock, envelope
from ringrift.bus import trace
from ringrift.bus.delivery import Deliverer, Reader
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.bus.recorder import open_recorder
from ringrift.bus.spans import span
from ringrift.cli.commands.events import _INDENTED_MAX, _NESTED_MAX, _find_trace, _trace_text, _trace_tree
from ringrift.events.base import Envelope, Event
from ringrift.events.data import Lost
from ringrift.kernel.errors import UnknownName
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import BusSettings, TraceSettings
from ringrift.store.ports import Store, Tx
from wait import wait_until


class Office:
    """A node's publisher and deliverer, with a reader that answers each event with another, a few times."""

    def __init__(self, store: Store, envelopes: EnvelopeFactory, clock: ManualClock) -> None:
        self._store, self._envelopes = store, envelopes
        self._deliverer = Deliverer(store, clock, envelopes, BusSettings().redelivery, 16)
        self.reader = Reader(name="echo", event_names=frozenset({Lost.name()}), react=self._react)

    async def publish(self, blob: str) -> Envelope:
        """Publish one event that begins a trace."""
        async with self._store.begin() as tx:
            [published] = await tx.append([self._envelopes.make(Lost(variant="v", blob=blob, reason="gone"))])
        return published

    async def answer(self) -> None:
        """Deliver until nothing is left."""
        position = await self._deliverer.register(self.reader)
        while (new := await self._deliverer.deliver_batch(self.reader, position)) != position:
            position = new

    async def _react(self, event: Event, envelope: Envelope, tx: Tx) -> None:
        assert isinstance(event, Lost)
        if event.blob.startswith("bad"):
            await tx.append([self._envelopes.make(Lost(variant="v", blob="undone", reason="never"))])
            raise ValueError("bad")
        if len(event.blob) < 3:
            answers = [Lost(variant="v", blob=event.blob + suffix, reason="echo") for suffix in "xy"]
            await tx.append([self._envelopes.make(answer, cause=envelope) for answer in answers])


@asynccontextmanager
async def opened(store: Store, node: str = "n1", **settings: Any) -> AsyncIterator[Office]:
    """The office of *node*, with its recorder."""
    clock = ManualClock()
    ids = Ids(clock, Random(node))
    quick = TraceSettings(**{"flush_seconds": 0.02, "send_seconds_max": 0.5, "stop_seconds_max": 2.0} | settings)
    async with open_recorder(quick, node, clock, ids, store) as recorder:
        yield Office(store, EnvelopeFactory(node, clock, ids, recorder), clock)


def by_blob(there: Collector, envelopes: list[Envelope]) -> dict[str, ReceivedSpan]:
    """The spans of events by blob."""
    spans = {span.id: span for span in there.spans()}
    return {json.loads(envelope.body)["blob"]: spans[trace.span_of(envelope.id)] for envelope in envelopes}


async def everything(store: Store) -> list[Envelope]:
    """The whole log."""
    async with store.read() as view:
        return list(await view.read(0, 1000))


# -- spans -------------------------------------------------------------------------------------------------------------


def test_events_and_their_deliveries_are_spans_of_one_trace(engine: Engine) -> None:
    """An event's parent is the delivery that published it, a delivery's parent its event; the first event has none."""

    async def story(store: Store) -> list[Envelope]:
        async with opened(store, endpoint=there.url) as rig:
            await rig.publish("a")
            await rig.answer()
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


def test_an_undone_event_has_no_span_and_its_delivery_has_the_error(engine: Engine) -> None:
    """A reaction that fails leaves spans of its tries with the error, but none of the event that was undone."""

    async def story(store: Store) -> None:
        async with opened(store, endpoint=there.url) as rig:
            await rig.publish("bad")
            await rig.answer()

    with collecting() as there:
        engine.run(story)

    assert {span.error for span in there.named("echo data.lost")} == {"ValueError: bad"}
    assert len(there.named("data.lost")) == 1


def test_an_explicit_span_is_the_parent_of_its_events(engine: Engine) -> None:
    """An event published inside a span is its child."""

    async def story(store: Store) -> Envelope:
        async with opened(store, endpoint=there.url) as rig:
            with span("by hand", reason="test"):
                return await rig.publish("abc")

    with collecting() as there:
        published = engine.run(story)

    [own] = there.named("by hand")
    [event] = there.named("data.lost")
    assert (event.parent, event.trace) == (own.id, own.trace)
    assert (published.trace, published.cause) == (own.trace, "")
    assert own.tags == {"reason": "test"}


def test_each_node_records_its_own_events(engine: Engine) -> None:
    """Two nodes on one store: every event is one span, of the node that published it."""

    async def story(store: Store) -> None:
        async with opened(store, "n1", endpoint=there.url) as first, opened(store, "n2", endpoint=there.url) as second:
            await first.publish("abc")
            await second.publish("def")

    with collecting() as there:
        engine.run(story)

    assert sorted(span.node for span in there.named("data.lost")) == ["n1", "n2"]


def test_a_collector_that_refuses_or_hangs_delays_no_publisher(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    """Publishing continues while the collector answers 503 or nothing; the loss is counted and logged; closing ends."""

    async def story(store: Store) -> int:
        async with opened(store, endpoint=there.url, queue_max=5, stop_seconds_max=0.1) as rig:
            for number in range(50):
                await rig.publish(f"{number:03}")
            await wait_until(lambda: there.spec > 0)
            there.status, there.hangs = 200, True
            for number in range(50):
                await rig.publish(f"{number:03}")
        return len(await everything(store))

    with collecting() as there, caplog.at_level(logging.INFO):
        there.status = 503
        count = engine.run(story)

    assert count == 100
    assert "spans were lost" in caplog.text
    assert re.search(r"n1: \d+ spans were sent, [1-9]\d* lost", caplog.text)


def test_with_debug_every_span_is_a_line_of_the_log(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """Without a collector the events and deliveries are still logged, each with its trace."""

    async def story(store: Store) -> Envelope:
        async with opened(store, debug=True) as rig:
            published = await rig.publish("abc")
            await rig.answer()
            return published

    with caplog.at_level(logging.DEBUG, "ringrift.trace"):
        published = engine.run(story)

    lines = [record.getMessage() for record in caplog.records if record.name == "ringrift.trace"]
    event, parent = trace.span_of(published.id), trace.span_of(published.id)
    assert any(line.startswith(f"event data.lost trace={published.trace} span={event} parent=-") for line in lines)
    assert any(line.startswith("delivery echo data.lost") and f"parent={parent}" in line for line in lines)


def test_without_settings_no_span_is_recorded(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """A node without trace settings only links its events to each other."""

    async def story(store: Store) -> list[Envelope]:
        async with opened(store) as rig:
            await rig.publish("a")
            await rig.answer()
        return await everything(store)

    with caplog.at_level(logging.DEBUG, "ringrift.trace"):
        log = engine.run(story)

    assert len({envelope.trace for envelope in log}) == 1
    assert [record.name for record in caplog.records if record.name == "ringrift.trace"] == []


# -- the tree ----------------------------------------------------------------------------------------------------------


async def published(store: Store) -> list[Envelope]:
    """A trace of seven events, and one event outside it."""
    async with opened(store) as rig:
        await rig.publish("a")
        await rig.publish("other")
        await rig.answer()
    return await everything(store)


def test_a_trace_is_shown_as_a_tree(engine: Engine) -> None:
    """Each event stands below its cause, indented by its level, with position, time, node and body."""

    async def story(store: Store) -> str:
        log = await published(store)
        return _trace_text(await _find_trace(store, log[3].id))

    head, *lines = engine.run(story).splitlines()

    rows = [(line[:1], line.split("blob=")[1].split(",")[0]) for line in lines]
    assert head.endswith(": 7 events on n1")
    assert [blob for _, blob in rows] == ["a", "ax", "axx", "axy", "ay", "ayx", "ayy"]
    assert [mark for mark, _ in rows] == [" ", " ", " ", " ", ">", " ", " "]
    assert [line.index("data.lost") - lines[0].index("data.lost") for line in lines] == [0, 2, 4, 4, 2, 4, 4]
    assert "2023-11-1" in lines[0]
    assert "  n1  data.lost  variant=v, blob=a, reason=gone" in lines[0]


def test_blob_names_are_shortened(engine: Engine) -> None:
    """The first ten of a blob's 64 digits are rows."""

    async def story(store: Store) -> str:
        async with opened(store) as rig:
            return _trace_text(await _find_trace(store, (await rig.publish("0123456789abcdef" * 4)).id))

    assert engine.run(story).endswith("variant=v, blob=0123456789, reason=gone, kind=")


def test_a_trace_is_shown_by_its_own_id(engine: Engine) -> None:
    """The id of the trace shows the same tree, nested for programs."""

    async def story(store: Store) -> dict[str, Any]:
        log = await published(store)
        result: dict[str, Any] = _trace_tree(await _find_trace(store, log[0].trace))
        return result

    result = engine.run(story)

    [root] = result["then"]
    assert (result["events"], result["cut"], result["event"]) == (7, False, "")
    assert root["body"]["blob"] == "a"
    assert [child["body"]["blob"] for child in root["then"]] == ["ax", "ay"]
    assert [child["body"]["blob"] for child in root["then"][1]["then"]] == ["ayx", "ayy"]
    assert root["then"][1]["cause"] == root["id"]


def test_a_long_trace_is_cut_with_a_note(engine: Engine) -> None:
    """Only a limited number of events is rows, and the last line states that there are more."""

    async def story(store: Store) -> tuple[str, dict[str, Any]]:
        log = await published(store)
        return _trace_text(await _find_trace(store, log[0].id, 3)), _trace_tree(await _find_trace(store, log[0].id, 3))

    text, result = engine.run(story)

    assert len(text.splitlines()) == 5
    assert text.splitlines()[-1] == "… there are more than these 3"
    assert (result["events"], result["cut"]) == (3, True)


@pytest.mark.parametrize("id", ["unknown", "0" * 32, ""])
def test_an_unknown_id_is_refused(engine: Engine, id: str) -> None:
    """An id that is neither an event nor a trace of this log has no tree."""

    async def story(store: Store) -> None:
        await published(store)
        await _find_trace(store, id)

    with pytest.raises(UnknownName, match="event or trace"):
        engine.run(story)


def test_a_long_chain_is_shown_without_all_its_levels(engine: Engine) -> None:
    """All of a thousand events in a row are rows, though not all of their levels."""
    row = [envelope(f"e{number}") for number in range(1000)]

    async def story(store: Store) -> tuple[list[str], dict[str, Any]]:
        async with store.begin() as tx:
            for number, event in enumerate(row):
                cause = f"e{number - 1}" if number else ""
                await tx.append(
                    [Envelope(id=event.id, name=event.name, body=b"{}", trace="t" * 32, cause=cause, node="n")]
                )
        return _trace_text(await _find_trace(store, "e500")).splitlines(), _trace_tree(await _find_trace(store, "e500"))

    lines, result = engine.run(story)

    depth, inner = 0, result["then"]
    while inner:
        depth, last, inner = depth + 1, inner[-1], inner[-1]["then"]
    assert len(lines) == 1001
    assert lines[-1].index("custom.published") == lines[_INDENTED_MAX + 1].index("custom.published")
    assert depth == _NESTED_MAX + 1
    assert (last["id"], last["level"]) == ("e999", 999)


def test_an_event_whose_cause_was_dropped_is_a_root(engine: Engine) -> None:
    """When the beginning of a trace was compacted the rest is still rows; an event without a trace is alone."""

    async def story(store: Store) -> list[int]:
        late = Envelope(id="late", name="custom.published", body=b"{}", trace="t" * 32, cause="gone")
        old = Envelope(id="old", name="custom.published", body=b"{}")
        async with store.begin() as tx:
            await tx.append([late, old, envelope("another")])
        return [len((await _find_trace(store, id)).steps) for id in ("late", "old")]

    assert engine.run(story) == [1, 1]
