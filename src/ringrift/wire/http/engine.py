"""HttpWire: the engine of the wire for real machines."""

import asyncio
import gc
import resource
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

from ringrift.kernel.errors import NodeAway
from ringrift.kernel.settings import WireSettings
from ringrift.kernel.wire_errors import InsecureBind
from ringrift.wire import tls
from ringrift.wire.address import Address, is_loopback, parse_address, reachable_host
from ringrift.wire.http.client import Broken, Pool
from ringrift.wire.http.limits import Limits
from ringrift.wire.http.messages import encode_request
from ringrift.wire.http.server import Link, Server
from ringrift.wire.ports import Reply, Request, Service

_CONNECT_SECONDS_MAX = 10.0  # of a stream; that of a request is part of its own time.
_CONNECTIONS_MAX = 64  # of one process to one address, streams aside.
_BACKLOG = 4096  # a fleet that comes back all at once waits here.
_COLLECTION = (20_000, 20, 200)  # new objects after which Python looks for cycles, and how often among older ones
_AWAY = (TimeoutError, OSError, Broken)
_Untrusted = ssl.SSLCertVerificationError


class HttpWire:
    """Carries requests and notes over HTTP/1.1, with TLS where the address begins with ``https``."""

    def __init__(
        self, settings: WireSettings, *, trust_any: bool = False, authority: str = "", limits: Limits | None = None
    ) -> None:
        self._settings, self._trust_any, self._limits = settings, trust_any, limits or Limits()
        self._authority = authority
        self._pools: dict[str, Pool] = {}

    async def request(self, address: str, request: Request, seconds_max: float) -> Reply:
        """Carry *request* to *address*.  Raises NodeAway if no reply comes within *seconds_max*: outcome unknown."""
        target = parse_address(address)
        message = _encode(target, request, is_stream=False)
        try:
            async with asyncio.timeout(seconds_max):
                return await self._pool(target).ask(message)
        except _AWAY as error:
            raise _away(address, error) from error

    async def subscribe(self, address: str, request: Request) -> AsyncIterator[bytes]:
        """The notes that *address* streams for *request*.  Raises NodeAway when the stream breaks."""
        target = parse_address(address)
        message = _encode(target, request, is_stream=True)
        try:
            async with asyncio.timeout(_CONNECT_SECONDS_MAX):
                link = await self._pool(target).connect()
            try:
                async with aclosing(link.stream(message, self._limits.silence_seconds_max)) as notes:
                    async for note in notes:
                        yield note
            finally:
                link.close()
        except _AWAY as error:
            raise _away(address, error) from error

    @asynccontextmanager
    async def serve(self, address: str, service: Service) -> AsyncIterator[str]:
        """Serve *service* at *address* while the body runs; yields the address under which it can be reached."""
        settings, bind = self._settings, parse_address(address)
        context = tls.server_context(settings.cert, settings.key) if settings.cert else None
        if context is None and not settings.insecure and not is_loopback(bind.host):
            raise InsecureBind(address)
        names = {"localhost", bind.host.lower(), socket.gethostname().lower(), *settings.names}
        if context is not None:
            names |= tls.names_of(settings.cert)
        _raise_file_limit(settings.connections_max)
        server, loop = Server(service, settings, frozenset(names), self._limits), asyncio.get_running_loop()
        limits = settings.header_seconds_max, set[object](), settings.connections_max

        def connect() -> asyncio.BaseProtocol:
            return Link(server) if context is None else tls.ServerProtocol(Link(server), context, *limits)

        listener = await loop.create_server(connect, bind.host, bind.port, backlog=_BACKLOG, reuse_address=True)
        sweeper, collection = server.start(server.sweep_forever()), gc.get_threshold()
        # Thousands of connections are objects that live long: looking through them for cycles took a fifth of the time.
        gc.set_threshold(*_COLLECTION)
        try:
            port = listener.sockets[0].getsockname()[1]
            yield str(Address(host=reachable_host(bind.host), port=port, is_tls=context is not None))
        finally:
            gc.set_threshold(*collection)
            listener.close()
            sweeper.cancel()
            await server.close()

    def close(self) -> None:
        """End the connections that rest; the wire can be used again."""
        for pool in self._pools.values():
            pool.close()
        self._pools.clear()

    def _pool(self, target: Address) -> Pool:
        key = str(target)
        if key not in self._pools:
            settings, context = self._settings, None
            if target.is_tls:
                trust = {"trust_any": self._trust_any, "authority": self._authority}
                context = tls.client_context(settings.ca, **trust)  # type: ignore[arg-type]  # as declared
            self._pools[key] = Pool(target, context, _CONNECTIONS_MAX)
        return self._pools[key]


def _away(address: str, error: Exception) -> NodeAway:
    why = f", whose certificate is not trusted: {error.verify_message}" if isinstance(error, _Untrusted) else ""
    return NodeAway(f"coordinator at {address}{why}")


def _encode(target: Address, request: Request, *, is_stream: bool) -> bytes:
    # On one machine bytes are cheaper than the time that it takes to compress them.
    compress = not is_loopback(target.host)
    return encode_request(target.authority, request, is_stream=is_stream, compress=compress)


def _raise_file_limit(connections_max: int) -> None:
    """Let this process have that many connections, as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = connections_max + 1024
    if soft != resource.RLIM_INFINITY and soft < target:
        limit = target if hard == resource.RLIM_INFINITY else min(target, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(limit, soft), hard))
