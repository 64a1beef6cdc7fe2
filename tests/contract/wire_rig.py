"""Engines of the wire to test: HTTP, HTTP over TLS and the simulated network, each with a service to talk to."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from random import Random
from typing import Any

from contract.engines import run
from ringrift.kernel.settings import WireSettings
from ringrift.kernel.wire_errors import Forbidden
from ringrift.sim.loop import SimLoop
from ringrift.sim.loop import run as run_sim
from ringrift.sim.network import Network
from ringrift.wire import tls
from ringrift.wire.open import open_wire
from ringrift.wire.ports import NOTE_BYTES_MAX, Reply, Request, Service, Wire, error_reply
from wait import wait_until

REFUSAL = Forbidden("promote", "promote")


class Echo:
    """A service that repeats what it is told; its verbs say how."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.finished = self.produced = self.streams = 0
        self.gate = asyncio.Event()  # what verb "held" waits for

    async def answer(self, request: Request) -> Reply:
        """Repeat the body."""
        self.requests.append(request)
        if request.verb == "held":
            await self.gate.wait()
        self.finished += 1
        if request.verb == "refused":
            return error_reply(REFUSAL, wait_seconds=2.5)
        return Reply(body=request.body)

    async def notes(self, request: Request) -> AsyncIterator[bytes]:
        """Stream what the verb asks for."""
        self.requests.append(request)
        if request.verb == "refused":
            raise REFUSAL
        self.streams += 1
        try:
            async for note in self._notes(request):
                self.produced += 1
                yield note
        finally:
            self.streams -= 1

    async def _notes(self, request: Request) -> AsyncIterator[bytes]:
        if request.verb == "endless":
            while True:
                yield request.body
        for number in range(200):
            yield b"%d" % number
        for note in (b"", b"\n\n", bytes(range(256)), b"x" * NOTE_BYTES_MAX):
            yield note
        if request.verb == "breaks":
            raise REFUSAL
        if request.verb == "held":
            await self.gate.wait()


class WireRig:
    """One engine: the wire of a client, and how a service is served to it."""

    def __init__(self, settings: WireSettings | None) -> None:
        self._settings = settings
        self.wire: Any = None
        self._server: Any = None
        self._address = "http://c:8770"

    def serve(self, service: Service) -> AbstractAsyncContextManager[str]:
        """Serve *service*; its address."""
        served: AbstractAsyncContextManager[str] = self._server.serve(self._address, service)
        return served

    def stay(self, address: str) -> None:
        """Serve at *address* from now on, not anywhere."""
        self._address = address

    def play(self, story: Callable[["WireRig"], Awaitable[None]]) -> None:
        """Run *story* to its end."""
        if self._settings is not None:
            run(self._play(story))
            return
        network = Network(Random(5))
        self.wire, self._server = network.wire("w"), network.wire("c")

        async def main(loop: SimLoop) -> None:
            await loop.spawn("w", story(self))  # type: ignore[arg-type]  # stories are coroutines

        run_sim(1, main)

    async def _play(self, story: Callable[["WireRig"], Awaitable[None]]) -> None:
        assert self._settings is not None
        self._address = "127.0.0.1:0"
        self.wire, self._server = open_wire(self._settings), open_wire(self._settings)
        try:
            await story(self)
        finally:
            self.wire.close()


def tls_settings(folder: Path, *names: str) -> WireSettings:
    """The settings of a coordinator for *names*, or this machine, with an authority of its own in *folder*."""
    cert, _ = tls.make_certificates(folder, names or ("127.0.0.1", "localhost"), time.time(), 30)
    return WireSettings(cert=str(cert), key=str(cert.with_suffix(".key")), ca=str(folder / "ca.pem"))


def make_rig(kind: str, folder: Path) -> WireRig:
    """The engine *kind*: http, https or sim."""
    settings = {"http": WireSettings, "https": lambda: tls_settings(folder), "sim": lambda: None}
    return WireRig(settings[kind]())


async def settle_at(count: Callable[[], int], seconds: float = 20.0) -> int:
    """The number at which *count* stays."""
    last = [-1, 0]

    def is_still() -> bool:
        now = count()
        last[:] = [now, last[1] + 1 if now == last[0] else 0]
        return last[1] >= 20

    await wait_until(is_still, seconds)
    return last[0]


async def read(
    wire: Wire, address: str, verb: str, notes: list[bytes], most: int = 1_000_000, body: bytes = b""
) -> None:
    """Put the notes of *verb* into *notes*, up to *most*; then the reader goes."""
    stream: Any = wire.subscribe(address, Request(verb=verb, body=body))
    try:
        async for note in stream:
            notes.append(note)
            if len(notes) >= most:
                return
    finally:
        await stream.aclose()
