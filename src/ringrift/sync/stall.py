"""Ends a transfer that stands still or crawls, so that the next holder or transport can go on with it.

Only time that is spent waiting for the other side counts: a transfer that our own limits slow down does not stall.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

from ringrift.kernel.transfer_settings import LinkSettings
from ringrift.kernel.value import Value
from ringrift.kernel.wire_errors import Stalled
from ringrift.sync.transports.ports import Endpoint, FileTransport, OnBytes

_POLLS = 10  # how often a file transport is looked at within the time that it may be silent


class _Arrivals(Value):
    """What has arrived in the current window, and in how many seconds of waiting."""

    bytes: int = 0
    seconds: float = 0.0
    silence_seconds: float = 0.0


def _count(arrivals: _Arrivals, size: int, seconds: float, limits: LinkSettings) -> _Arrivals:
    """*arrivals* after *seconds* of waiting in which *size* bytes came; a window that was fast enough ends."""
    silence = 0.0 if size else arrivals.silence_seconds + seconds
    after = _Arrivals(bytes=arrivals.bytes + size, seconds=arrivals.seconds + seconds, silence_seconds=silence)
    if after.seconds >= limits.window_seconds and not _find_stall(after, limits):
        return _Arrivals(silence_seconds=silence)
    return after


def _find_stall(arrivals: _Arrivals, limits: LinkSettings) -> str:
    """Why the transfer has stalled; empty if it has not."""
    if arrivals.silence_seconds >= limits.silence_seconds_max:
        return _silence(limits)
    least = limits.bytes_per_second_min * arrivals.seconds
    if arrivals.seconds >= limits.window_seconds and arrivals.bytes < least:
        rate = arrivals.bytes / arrivals.seconds
        return f"{rate:.0f} bytes/s over {arrivals.seconds:.0f} s, below {limits.bytes_per_second_min:g}"
    return ""


async def watch(chunks: AsyncIterator[bytes], limits: LinkSettings, endpoint: Endpoint) -> AsyncIterator[bytes]:
    """*chunks* of a transport, as they come.  Raises Stalled, and then the connection is closed."""
    loop, arrivals = asyncio.get_running_loop(), _Arrivals()
    try:
        while True:
            start = loop.time()
            try:
                async with asyncio.timeout(limits.silence_seconds_max):
                    chunk = await anext(chunks, None)
            except TimeoutError:
                raise Stalled(endpoint.node, endpoint.transport, _silence(limits)) from None
            if chunk is None:
                return
            arrivals = _count(arrivals, len(chunk), loop.time() - start, limits)
            if reason := _find_stall(arrivals, limits):
                raise Stalled(endpoint.node, endpoint.transport, reason)
            yield chunk
    finally:
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()


def _silence(limits: LinkSettings) -> str:
    return f"no bytes for {limits.silence_seconds_max:g} s"


async def watch_append(
    transport: FileTransport, endpoint: Endpoint, blob: str, part: Path, on_bytes: OnBytes, limits: LinkSettings
) -> None:
    """Complete *part* by *transport*.  Raises Stalled after the transport has let go of *part*."""
    loop, arrivals, progress = asyncio.get_running_loop(), _Arrivals(), list[int]()

    def add(size: int) -> None:
        progress.append(size)
        on_bytes(size)

    task = loop.create_task(transport.append(endpoint, blob, part, add), name=f"append:{blob[:12]}")
    try:
        while not task.done():
            start = loop.time()
            await asyncio.wait((task,), timeout=limits.silence_seconds_max / _POLLS)
            arrivals = _count(arrivals, sum(progress), loop.time() - start, limits)
            progress.clear()
            if not task.done() and (reason := _find_stall(arrivals, limits)):
                raise Stalled(endpoint.node, endpoint.transport, reason)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    task.result()
