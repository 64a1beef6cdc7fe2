"""The trace context of running code, and its form for other programs."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringrift.bus import trace
from ringrift.bus.trace import Context
from ringrift.events.base import Envelope
from ringrift.kernel.errors import InvalidPayload, LoopDetected

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
HEX = st.text("0123456789abcdef", min_size=16, max_size=16).filter(lambda text: text.strip("0"))


def event(id: str = "e1", **changes: object) -> Envelope:
    """An event with a trace."""
    return Envelope(**{"id": id, "name": "data.lost", "body": b"{}", "trace": TRACE, "correlation": "c"} | changes)


def test_outside_of_a_trace_there_is_no_context() -> None:
    """Code that belongs to no event or job has no context and no traceparent."""
    assert trace.current() is None
    assert trace.traceparent() == ""


def test_an_event_is_the_parent_of_its_handlers() -> None:
    """While an event is handled, traceparent names its trace and the span that the event is."""
    with trace.within(trace.context_of(event())):
        reported = trace.traceparent()

    assert reported == f"00-{TRACE}-{trace.span_of('e1')}-00"
    assert trace.current() is None


def test_a_running_span_is_the_parent_with_its_sampled_flag() -> None:
    """With a span the parent is the span, and the last digit shows whether it is recorded."""
    with trace.within(Context(trace=TRACE, cause="e1", span=SPAN, sampled=True)):
        reported = trace.traceparent()

    assert reported == f"00-{TRACE}-{SPAN}-01"


def test_a_trace_of_an_earlier_version_becomes_readable_for_others() -> None:
    """A trace that is no 32 hexadecimal digits is written as some, always the same."""
    with trace.within(Context(trace="01J8ZQ4T5C", cause="e1")):
        once, twice = trace.traceparent(), trace.traceparent()

    assert once == twice
    assert trace.from_traceparent(once).span == trace.span_of("e1")


@given(high=HEX, low=HEX, span=HEX, sampled=st.booleans())
def test_a_traceparent_survives_the_round_trip(high: str, low: str, span: str, sampled: bool) -> None:
    """Every traceparent that we write, we parse to the same context."""
    context = Context(trace=high + low, span=span, sampled=sampled)

    with trace.within(context):
        reported = trace.traceparent()

    assert trace.from_traceparent(reported) == context


@given(st.text(max_size=80))
def test_an_invalid_traceparent_is_refused(text: str) -> None:
    """Any text is refused with InvalidPayload unless it has the right form."""
    with pytest.raises(InvalidPayload, match="traceparent"):
        trace.from_traceparent(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-0",
        f"00-{TRACE}-{SPAN}-01-",
        f"00-{TRACE}-{SPAN}-01-more",
        f"0-{TRACE}-{SPAN}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE[:-1]}g-{SPAN}-01",
        f"cc-{TRACE}-{SPAN}-01more",
        f"00-{TRACE}-{SPAN}-01\n",
        f"cc-{TRACE}-{SPAN}-01-{'x' * 1000}",
    ],
)
def test_a_malformed_traceparent_is_refused(text: str) -> None:
    """Wrong lengths, letters, ids of zeros and the forbidden version raise InvalidPayload."""
    with pytest.raises(InvalidPayload, match="traceparent"):
        trace.from_traceparent(text)


@pytest.mark.parametrize(
    "text", [f"cc-{TRACE}-{SPAN}-01", f"cc-{TRACE}-{SPAN}-01-what.ever", f" 00-{TRACE}-{SPAN}-03\t"]
)
def test_later_versions_are_read_up_to_their_flags(text: str) -> None:
    """A later version is read up to its flags; we use the lowest of them."""
    assert trace.from_traceparent(text) == Context(trace=TRACE, span=SPAN, sampled=True)


def test_a_job_carries_its_trace_without_its_depth() -> None:
    """A job carries the context of its request, but work in between ends a chain of events."""
    context = Context(trace=TRACE, correlation="c", cause="e1", depth=7, span=SPAN, sampled=True)

    result = trace.from_text(trace.to_text(context))

    assert result == Context(trace=TRACE, correlation="c", cause="e1", depth=0, span=SPAN, sampled=True)
    assert trace.from_text(trace.to_text(None)) is None


def test_a_job_of_an_earlier_version_is_read() -> None:
    """A context that was written before there were more fields is read with their defaults."""
    assert trace.from_text('{"trace":"t"}') == Context(trace="t")


def test_a_row_of_events_that_is_too_long_is_a_loop() -> None:
    """The deepest that is allowed passes, one more does not."""
    trace.require_shallow("data.lost", trace._DEPTH_MAX)

    with pytest.raises(LoopDetected):
        trace.require_shallow("data.lost", trace._DEPTH_MAX + 1)


def test_tasks_have_contexts_of_their_own() -> None:
    """A task inherits the context of its start, and a context that it enters is its own."""

    async def inner() -> str:
        before = trace.traceparent()
        trace.enter(Context(trace="f" * 32, span=SPAN))
        return before

    async def main() -> tuple[str, str, str]:
        with trace.within(trace.context_of(event())):
            task = asyncio.get_running_loop().create_task(inner())
        return await task, trace.traceparent(), trace.span_of("e1")

    inherited, after, parent = asyncio.run(main())

    assert parent in inherited
    assert after == ""


def test_closing_in_another_context_is_quiet() -> None:
    """A body that is closed in another context than it was entered in raises nothing there."""

    async def inner(entered: asyncio.Event) -> None:
        with trace.within(trace.context_of(event())):
            entered.set()
            await asyncio.get_running_loop().create_future()

    async def main() -> None:
        entered = asyncio.Event()
        body = inner(entered)
        task = asyncio.get_running_loop().create_task(_step(body))
        await entered.wait()
        await task
        body.close()

    async def _step(body: object) -> None:
        body.send(None)  # type: ignore[attr-defined]  # one step by hand, as a simulated host does

    asyncio.run(main())

    assert trace.current() is None
