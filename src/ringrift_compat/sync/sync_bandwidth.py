"""Coordinated rsync: folders are copied by the binary, in a place and at a rate that all programs and nodes share."""

import asyncio
import re
import shlex
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath

from ringrift.cluster.hosts import read_hosts
from ringrift.kernel.errors import TRANSIENT, InvalidId, printable
from ringrift.kernel.value import changed
from ringrift.kernel.wire_errors import LinkBroken
from ringrift.sync.transports.ports import Endpoint
from ringrift.sync.transports.programs import Program
from ringrift.sync.transports.ssh_command import check_endpoint, make_ssh
from ringrift.threads import beside
from ringrift_compat.embedded_node import EmbeddedNode, embedded
from ringrift_compat.sync.bandwidth_manager import BYTES_PER_MBIT, BandwidthManager, TransferPriority
from ringrift_compat.sync.sync_mutex import acquire

_WAIT_SECONDS = 600.0
_STEP_SECONDS = 5.0  # between two renewals while rsync runs
_OPTIONS = ("--archive", "--partial", "--protect-args", "--no-human-readable", "--stats")
_MOVED = re.compile(rb"^Total transferred file size: (\d+)", re.MULTILINE)
_OUTPUT_BYTES_MAX = 64 * 1024
_ERROR_CHARACTERS_MAX = 500
_REMOTE = re.compile(r"([^/:]*):(.*)", re.DOTALL)  # as rsync tells: a colon before the first slash


@dataclass(frozen=True)
class SyncResult:
    """The end of one rsync."""

    success: bool
    host: str
    source: str
    dest: str
    bytes_transferred: int = 0
    duration_seconds: float = 0.0
    bandwidth_mbps: float = 0.0
    """The rate that it was held to; 0 for none."""
    error: str = ""


def _argv(node: EmbeddedNode, source: str, dest: str, host: str, rate: float) -> tuple[list[str], Endpoint]:
    """The command line, no word of which can be an option or reach a shell.  Raises InvalidId."""
    links = node.settings.links
    endpoint = Endpoint(node="rsync", transport="rsync", folder="/")
    hosts = {row.name: row for row in read_hosts(links.hosts)[0]} if links.hosts else {}
    remotes = [match for path in (source, dest) if (match := _REMOTE.fullmatch(path))]
    if len(remotes) > 1:
        raise InvalidId("dest", dest, "only one side can be another machine")
    for remote in remotes:
        endpoint = changed(endpoint, addresses=(remote[1],), folder=remote[2])
        if row := hosts.get(host):
            endpoint = changed(endpoint, port=row.ssh_port, identity=row.ssh_key, host_keys=row.host_keys)
    check_endpoint(endpoint)
    for path in (source, dest):
        if not path or "\0" in path or path.startswith("rsync://"):
            raise InvalidId("path", path, "must be a path")
    words = ["rsync", *_OPTIONS, f"--timeout={max(1, round(links.silence_seconds_max))}"]
    words += [f"--rsh={shlex.join(make_ssh(links, endpoint))}"] if remotes else []
    words += [f"--bwlimit={max(1, round(rate / 1024))}"] if rate else []
    return [*words, "--", source, dest], endpoint


async def _explain(program: Program) -> str:
    """Everything that it complained about: the last line alone is rsync's, and ssh knew why."""
    last = await program.explain()
    lines = [line.strip() for line in program.errors().splitlines() if line.strip()]
    return printable("; ".join(lines) or last, _ERROR_CHARACTERS_MAX)


async def _renew(manager: BandwidthManager, id: str, seconds: float) -> None:
    """Keep what was reserved while rsync runs; a store that is busy now is not at the next step."""
    while True:
        await asyncio.sleep(seconds)
        with suppress(*TRANSIENT):
            await manager.renew(id)


async def _run(argv: list[str], to: Endpoint) -> tuple[int, str]:
    """Bytes that were moved, and what went wrong."""
    try:
        async with Program.run(argv, to) as program:
            program.input.close()
            moved = _MOVED.search(await _read_end(program.output))
            error = await _explain(program) if await program.wait() else ""
    except LinkBroken as broken:
        return 0, str(broken)
    return int(moved[1]) if moved else 0, error


async def _read_end(stream: asyncio.StreamReader) -> bytes:
    """The last bytes of *stream*, at its end."""
    end = b""
    while data := await stream.read(_OUTPUT_BYTES_MAX):
        end = (end + data)[-_OUTPUT_BYTES_MAX:]
    return end


class BandwidthCoordinatedRsync:
    """Runs rsync when the manager gives it bandwidth, at that rate; one at a time for each destination."""

    def __init__(self, timeout: float = _WAIT_SECONDS) -> None:
        """*timeout*: how long one copy may wait for bandwidth, and for another one to the same destination."""
        self._timeout = timeout

    async def sync(
        self,
        source: str | PurePath,
        dest: str | PurePath,
        host: str,
        priority: TransferPriority | str = TransferPriority.NORMAL,
        mbps: float = 0.0,
    ) -> SyncResult:
        """Copy *source* to *dest*, either of which may be ``user@host:/path``; a failure is a result, with its reason.

        Raises InvalidId for a word that no command line should get, ValueError for a priority that is none.
        """
        node = embedded.node()
        _argv(node, str(source), str(dest), host, 0.0)
        level = TransferPriority.parse(priority)
        return await embedded.post(self._sync(node, str(source), str(dest), host, level, mbps))

    async def _sync(
        self, node: EmbeddedNode, source: str, dest: str, host: str, priority: TransferPriority, mbps: float
    ) -> SyncResult:
        manager, start = node.extension(BandwidthManager), node.clock.tick()
        lock = await acquire(node, host, dest, self._timeout)
        if lock is None:
            error = f"another program copies to {dest}, and did not end within {self._timeout:g} s"
            return SyncResult(False, host, source, dest, error=error)
        try:
            allocation = await manager.request(host, mbps, priority, self._timeout)
            if not allocation.granted:
                return SyncResult(False, host, source, dest, error=allocation.reason)
            size, rate = 0, allocation.bandwidth_mbps * BYTES_PER_MBIT
            step = min(_STEP_SECONDS, node.settings.bandwidth.expiry_seconds / 3)
            try:
                async with beside(_renew(manager, allocation.id, step)):
                    size, error = await _run(*_argv(node, source, dest, host, rate))
            finally:
                await manager.release(allocation.id, size)
            seconds = node.clock.tick() - start
            return SyncResult(not error, host, source, dest, size, seconds, allocation.bandwidth_mbps, error)
        finally:
            await lock.end()


class BatchRsync:
    """Many copies at once, each in its own place: as many run as the limits allow, the most urgent first."""

    def __init__(self, rsync: BandwidthCoordinatedRsync | None = None) -> None:
        self._rsync = rsync or BandwidthCoordinatedRsync()
        self._transfers: list[tuple[str, str, str, TransferPriority]] = []

    def add(
        self, source: str, dest: str, host: str, priority: TransferPriority | str = TransferPriority.NORMAL
    ) -> "BatchRsync":
        """Add a copy to the batch.  Raises ValueError for a priority that is none."""
        self._transfers.append((source, dest, host, TransferPriority.parse(priority)))
        return self

    async def sync(self, transfers: Iterable[tuple[str, str, str]] = ()) -> list[SyncResult]:
        """Make all copies of the batch, and *transfers* of (source, dest, host); a result for each, in their order."""
        rows = [*self._transfers, *((*row, TransferPriority.NORMAL) for row in transfers)]
        self._transfers = []
        return list(await asyncio.gather(*(self._rsync.sync(*row) for row in rows)))
