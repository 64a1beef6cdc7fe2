"""Collector: a loopback server that accepts traces as a real one does, and can be set to refuse or to hang."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

HANG_SECONDS_MAX = 60.0


@dataclass(frozen=True)
class ReceivedSpan:
    """One span as it was received; ids in hexadecimal digits."""

    trace: str
    id: str
    parent: str
    name: str
    kind: int
    start: int
    end: int
    node: str
    error: str
    tags: dict[str, object] = field(hash=False)


class Collector:
    """The received spans.  Answers with *status*, or with nothing while it *hangs*."""

    def __init__(self) -> None:
        self.status = 200
        self.hangs = False
        self.spec = 0
        self.paths: set[str] = set()
        self.url = ""
        self.released = threading.Event()
        self._requests: list[ExportTraceServiceRequest] = []
        self._lock = threading.Lock()

    def take(self, path: str, body: bytes) -> int:
        """Accept one request; the status of the answer."""
        with self._lock:
            self.spec += 1
            self.paths.add(path)
        if self.hangs:
            self.released.wait(HANG_SECONDS_MAX)
        if self.status == 200:
            with self._lock:
                self._requests.append(ExportTraceServiceRequest.FromString(body))
        return self.status

    def spans(self) -> list[ReceivedSpan]:
        """Every received span."""
        with self._lock:
            return [span for request in self._requests for span in _spans(request)]

    def named(self, name: str) -> list[ReceivedSpan]:
        """The spans with this name."""
        return [span for span in self.spans() if span.name == name]


def _spans(request: ExportTraceServiceRequest) -> Iterator[ReceivedSpan]:
    for group in request.resource_spans:
        about = {pair.key: pair.value.string_value for pair in group.resource.attributes}
        assert about["service.name"] == "ringrift"
        for scope in group.scope_spans:
            for span in scope.spans:
                yield ReceivedSpan(
                    trace=span.trace_id.hex(),
                    id=span.span_id.hex(),
                    parent=span.parent_span_id.hex(),
                    name=span.name,
                    kind=span.kind,
                    start=span.start_time_unix_nano,
                    end=span.end_time_unix_nano,
                    node=about["service.instance.id"],
                    error=span.status.message if span.status.code == 2 else "",
                    tags={pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in span.attributes},
                )


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector that serves a port of its own until the end of the body."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            status = collector.take(self.path, body)
            try:
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()
            except ConnectionError:
                return  # the client has closed the connection

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        collector.url = f"http://127.0.0.1:{server.server_address[1]}"
        serving = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        serving.start()
        try:
            yield collector
        finally:
            collector.released.set()
            server.shutdown()
            serving.join()
