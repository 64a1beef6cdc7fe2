"""OpenTelemetry: send spans as OTLP over HTTP to a collector, which may be slow or unreachable.

The only module that imports opentelemetry; it is imported only where an endpoint is set.
"""

import logging
from collections.abc import Sequence
from typing import Any

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

_PATH = "/v1/traces"
_KINDS = {"event": SpanKind.PRODUCER, "delivery": SpanKind.CONSUMER, "job": SpanKind.CONSUMER}
log = logging.getLogger(__name__)


class Collector:
    """The collector at the endpoint of *settings*, for the spans of *node*."""

    def __init__(self, settings: TraceSettings, node: str) -> None:
        # With retries, headers, certificates and compression as the standard variables of OpenTelemetry say.
        self._exporter = OTLPSpanExporter(endpoint=_address(settings.endpoint), timeout=settings.send_seconds_max)
        about = {"service.name": "ringrift", "service.version": __version__, "service.instance.id": node}
        self._resource = Resource.create(about)
        self._scope = InstrumentationScope("ringrift", __version__)

    def send(self, spans: Sequence[Span]) -> bool:
        """Send *spans*; returns whether the collector accepted them.  Blocks up to the time limit of the settings."""
        try:
            done = self._exporter.export([self._readable(span) for span in spans])
        except OSError as error:  # some versions let the error of their HTTP library through
            log.warning("the span collector does not answer: %s", error)
            return False
        return done is SpanExportResult.SUCCESS

    def close(self) -> None:
        """Shut down; a pending retry is abandoned."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]  # theirs has no annotation

    def _readable(self, span: Span) -> ReadableSpan:
        # Their tracer would make ids of its own, but ours are fixed before anything is exported.
        trace_id, start = trace.hexadecimal(span.trace), _nanoseconds(span.start)
        context, parent = _context(trace_id, span.id), _context(trace_id, span.parent) if span.parent else None
        times = {"start_time": start, "end_time": start + _nanoseconds(span.seconds)}
        status = Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET)
        about: Any = {"kind": _KINDS.get(span.kind, SpanKind.INTERNAL), "status": status, **times}
        about |= {"attributes": span.tags, "resource": self._resource, "instrumentation_scope": self._scope}
        return ReadableSpan(name=span.name, context=context, parent=parent, **about)


def _address(endpoint: str) -> str:
    """The address for traces at *endpoint*, which may or may not include the path."""
    return endpoint.rstrip("/").removesuffix(_PATH) + _PATH


def _context(trace_id: str, span: str) -> SpanContext:
    return SpanContext(int(trace_id, 16), int(span, 16), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _nanoseconds(seconds: float) -> int:
    # A float holds a current time with a precision of microseconds.
    return round(seconds * 1e6) * 1000
