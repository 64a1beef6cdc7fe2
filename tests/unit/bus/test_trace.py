"""Where running code stands in a story, and how that is written for others."""

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
    """An event of a story."""
    return Envelope(**{"id": id, "name": "data.lost", "body": b"{}", "trace": TRACE, "correlation": "c"} | changes)


def test_outside_of_a_story_there_is_none() -> None:
    """Code that belongs to nothing has no context and no traceparent."""
    assert trace.current() is None
    assert trace.traceparent() == ""


def test_an_event_is_the_parent_of_what_handles_it() -> None:
    """While an event is handled, traceparent names its trace and the span that the event is."""
    with trace.within(trace.of(event())):
        said = trace.traceparent()

    assert said == f"00-{TRACE}-{trace.span_of('e1')}-00"
    assert trace.current() is None


def test_a_running_span_is_the_parent_and_says_whether_it_is_kept() -> None:
    """With a span the parent is the span, and the last digit says whether anybody keeps it."""
    with trace.within(Context(trace=TRACE, cause="e1", span=SPAN, sampled=True)):
        said = trace.traceparent()

    assert said == f"00-{TRACE}-{SPAN}-01"


def test_a_trace_of_an_earlier_version_becomes_one_that_others_can_read() -> None:
    """A trace that is no 32 hexadecimal digits is written as some, always the same."""
    with trace.within(Context(trace="01J8ZQ4T5C", cause="e1")):
        once, twice = trace.traceparent(), trace.traceparent()

    assert once == twice
    assert trace.from_traceparent(once).span == trace.span_of("e1")


@given(high=HEX, low=HEX, span=HEX, sampled=st.booleans())
def test_what_is_written_is_read_again(high: str, low: str, span: str, sampled: bool) -> None:
    """Every traceparent of ours is understood by us."""
    context = Context(trace=high + low, span=span, sampled=sampled)

    with trace.within(context):
        said = trace.traceparent()

    assert trace.from_traceparent(said) == context


@given(st.text(max_size=80))
def test_what_is_no_traceparent_is_refused_by_name(text: str) -> None:
    """Whatever comes, it is refused with the error for it unless it has the right form."""
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
def test_later_versions_are_read_as_far_as_they_are_known(text: str) -> None:
    """A version that nobody knows yet is read up to its flags, of which we know the lowest."""
    assert trace.from_traceparent(text) == Context(trace=TRACE, span=SPAN, sampled=True)


def test_a_job_carries_its_story_without_its_depth() -> None:
    """What a job carries is what asked for it, but work in between ends a row of events."""
    context = Context(trace=TRACE, correlation="c", cause="e1", depth=7, span=SPAN, sampled=True)

    found = trace.read(trace.written(context))

    assert found == Context(trace=TRACE, correlation="c", cause="e1", depth=0, span=SPAN, sampled=True)
    assert trace.read(trace.written(None)) is None


def test_a_job_of_an_earlier_version_is_read() -> None:
    """A story that was written before there were more fields is read with their defaults."""
    assert trace.read('{"trace":"t"}') == Context(trace="t")


def test_a_row_of_events_that_is_too_long_is_a_loop() -> None:
    """The deepest that is allowed passes, one more does not."""
    trace.require_shallow("data.lost", trace.DEPTH_MAX)

    with pytest.raises(LoopDetected):
        trace.require_shallow("data.lost", trace.DEPTH_MAX + 1)


def test_tasks_have_contexts_of_their_own() -> None:
    """A task inherits where it was started, and what it enters is nobody else's."""

    async def inner() -> str:
        before = trace.traceparent()
        trace.enter(Context(trace="f" * 32, span=SPAN))
        return before

    async def story() -> tuple[str, str, str]:
        with trace.within(trace.of(event())):
            task = asyncio.get_running_loop().create_task(inner())
        return await task, trace.traceparent(), trace.span_of("e1")

    inherited, after, parent = asyncio.run(story())

    assert parent in inherited
    assert after == ""


def test_closing_what_nobody_runs_any_more_is_quiet() -> None:
    """A body that is closed in another context than it was entered in raises nothing there."""

    async def inner(entered: asyncio.Event) -> None:
        with trace.within(trace.of(event())):
            entered.set()
            await asyncio.get_running_loop().create_future()

    async def story() -> None:
        entered = asyncio.Event()
        body = inner(entered)
        task = asyncio.get_running_loop().create_task(_step(body))
        await entered.wait()
        await task
        body.close()

    async def _step(body: object) -> None:
        body.send(None)  # type: ignore[attr-defined]  # one step by hand, as a simulated host does

    asyncio.run(story())

    assert trace.current() is None
