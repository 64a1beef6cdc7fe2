"""OpenTelemetry: spans as OTLP over HTTP to a collector, which may be slow or away.

The only module that imports opentelemetry; it is imported only where an endpoint is set.
"""

import logging
from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from ringrift import __version__
from ringrift.bus import trace
from ringrift.bus.spans import Span
from ringrift.kernel.settings import TraceSettings

PATH = "/v1/traces"
KINDS = {"event": SpanKind.PRODUCER, "delivery": SpanKind.CONSUMER, "job": SpanKind.CONSUMER}
log = logging.getLogger(__name__)


class Collector:
    """The collector at the endpoint of *settings*, for the spans of *node*."""

    def __init__(self, settings: TraceSettings, node: str) -> None:
        # With retries, headers, certificates and compression as the standard variables of OpenTelemetry say.
        self._exporter = OTLPSpanExporter(endpoint=address(settings.endpoint), timeout=settings.send_seconds_max)
        about = {"service.name": "ringrift", "service.version": __version__, "service.instance.id": node}
        self._resource = Resource.create(about)
        self._scope = InstrumentationScope("ringrift", __version__)

    def send(self, spans: Sequence[Span]) -> bool:
        """Whether the collector took *spans*.  Blocks, up to the time that the settings give it."""
        try:
            done = self._exporter.export([self._readable(span) for span in spans])
        except OSError as away:  # some versions let the error of their HTTP library through
            log.warning("the collector of spans does not answer: %s", away)
            return False
        return done is SpanExportResult.SUCCESS

    def close(self) -> None:
        """Let go of it: a try that waits for another is given up."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]  # theirs has no annotation

    def _readable(self, span: Span) -> ReadableSpan:
        # A tracer of theirs would make ids of its own, but ours are known before anything is exported.
        story = trace.hexadecimal(span.trace)
        start = _nanoseconds(span.start)
        return ReadableSpan(
            name=span.name,
            context=_context(story, span.id),
            parent=_context(story, span.parent) if span.parent else None,
            resource=self._resource,
            attributes=span.tags,
            kind=KINDS.get(span.kind, SpanKind.INTERNAL),
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
            start_time=start,
            end_time=start + _nanoseconds(span.seconds),
            instrumentation_scope=self._scope,
        )


def address(endpoint: str) -> str:
    """Where traces go at *endpoint*, which may be named with or without the path for them."""
    base = endpoint.rstrip("/")
    return base if base.endswith(PATH) else base + PATH


def _context(story: str, span: str) -> SpanContext:
    return SpanContext(int(story, 16), int(span, 16), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _nanoseconds(seconds: float) -> int:
    # Of a time of today a float holds no more than microseconds.
    return round(seconds * 1e6) * 1000
