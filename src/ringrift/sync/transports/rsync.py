"""rsync over ssh, by its program: it writes the part itself, and goes on at the end of what is there."""

import asyncio
import errno
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from weakref import finalize

from ringrift.kernel.errors import NoRoom, NoRoute
from ringrift.kernel.ids import check_blob
from ringrift.kernel.transfer_settings import LinkSettings
from ringrift.kernel.wire_errors import LinkBroken
from ringrift.sync.transports import remote
from ringrift.sync.transports.ports import Endpoint, OnBytes
from ringrift.sync.transports.programs import Program
from ringrift.sync.transports.ssh_command import check_endpoint, make_ssh, remote_command
from ringrift.threads import Threads

_POLL_SECONDS = 0.2  # between looks at how much is there
_PROBLEMS = {"away": "its blob folder is not there", "packed": "the file is in a pack, which rsync cannot read"}
_FULL = re.compile(rf"\(({errno.ENOSPC}|{errno.EDQUOT})\)")


class RsyncTransport:
    """:class:`ringrift.sync.transports.ports.FileTransport`; *rate* is how many bytes/s a node may send, 0 for any."""

    name = "rsync"

    def __init__(self, links: LinkSettings, rate: Callable[[str], float] = lambda node: 0.0) -> None:
        self._links, self._rate = links, rate
        self._threads = Threads(1, "rsync")
        finalize(self, self._threads.close)

    async def append(self, endpoint: Endpoint, blob: str, part: Path, on_bytes: OnBytes) -> None:
        check_endpoint(endpoint)
        check_blob(blob)
        reasons = list[str]()
        for address in endpoint.addresses:
            async with Program.run(self._make_argv(endpoint, address, blob, part), endpoint) as program:
                code = await self._follow(program, part, on_bytes)
                reason = await program.explain()
                answers = re.findall(rf"^ringrift {blob} (\w+)$", program.errors(), re.MULTILINE)
            if _FULL.search(program.errors()):
                raise NoRoom(str(part.parent))
            if not answers:
                reasons.append(f"{address}: {reason}")
                continue
            if answers[-1] == "absent":
                raise NoRoute(blob, [endpoint.node])
            if answers[-1] in _PROBLEMS or code != 0:
                raise LinkBroken(endpoint.node, self.name, _PROBLEMS.get(answers[-1], reason))
            if await self._size(part) < int(answers[-1]):
                raise LinkBroken(endpoint.node, self.name, "rsync ended before the end of the file")
            return
        raise LinkBroken(endpoint.node, self.name, "; ".join(reasons) or "no address is known")

    def _make_argv(self, endpoint: Endpoint, address: str, blob: str, part: Path) -> list[str]:
        user, at, host = address.rpartition("@")
        host = f"[{host}]" if ":" in host else host
        folder = f"./{endpoint.folder[2:]}" if endpoint.folder.startswith("~/") else endpoint.folder
        server = remote_command(remote.SERVE_RSYNC, endpoint.folder, endpoint.node, blob, self.name)
        options = ["--append", "--secluded-args", f"--timeout={max(round(self._links.silence_seconds_max), 1)}"]
        if rate := self._rate(endpoint.node):
            options.append(f"--bwlimit={max(rate / 1024, 1):.0f}k")
        ssh = shlex.join(make_ssh(self._links, endpoint))
        source = f"{user}{at}{host}:{folder}/{blob[:2]}/{blob}"
        return ["rsync", *options, "--rsh", ssh, "--rsync-path", server, "--", source, str(part.absolute())]

    async def _follow(self, program: Program, part: Path, on_bytes: OnBytes) -> int:
        """Report what arrives in *part* until the program ends; its exit code."""
        program.input.close()
        size = await self._size(part)
        ended = asyncio.get_running_loop().create_task(program.wait(), name="rsync")
        try:
            while not ended.done():
                await asyncio.wait((ended,), timeout=_POLL_SECONDS)
                before, size = size, await self._size(part)
                if size > before:
                    on_bytes(size - before)
            return ended.result()
        finally:
            ended.cancel()

    async def _size(self, part: Path) -> int:
        return (await self._threads.run(part.stat)).st_size
