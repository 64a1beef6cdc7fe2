"""Plain streams over ssh: the other machine needs a server of ssh and a POSIX shell, and nothing of ours."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from tarfile import BLOCKSIZE

from ringrift.kernel.errors import Corrupt, NoRoom, NoRoute
from ringrift.kernel.ids import check_blob
from ringrift.kernel.transfer_settings import LinkSettings
from ringrift.kernel.wire_errors import LinkBroken, Stalled
from ringrift.sync.transports import remote
from ringrift.sync.transports.ports import BATCH_BLOB_BYTES_MAX, CHUNK_BYTES_MAX, Endpoint, OnBytes, Source
from ringrift.sync.transports.programs import Program
from ringrift.sync.transports.ssh_command import check_endpoint, make_ssh, remote_command

_HASH_SECONDS_MAX = 1800.0  # for the other machine to hash and flush one file
_PROBLEMS = {
    "away": "its blob folder is not there",
    "packed": "the file is in a pack, which needs python3 there",
    "busy": "another push of the file is running",
    "partial": "the connection broke before the end of the file",
    "no_flock": "flock is not installed there",
    "no_sha256sum": "sha256sum is not installed there",
}


class SshTransport:
    """Transport, BatchTransport, PushTransport and CheckTransport over ssh."""

    name, _code = "ssh", "plain"

    def __init__(self, links: LinkSettings) -> None:
        self._links = links
        self._answered: dict[str, str] = {}  # by node, as many as there are hosts: its address that answered last

    async def read(self, endpoint: Endpoint, blob: str, offset: int) -> AsyncIterator[bytes]:
        async with self._ask(endpoint, remote.READ, check_blob(blob), offset) as (program, answer):
            left = self._number(endpoint, blob, answer) - offset
            async for chunk in self._decode(program, endpoint, left):
                left -= len(chunk)
                yield chunk
        if left:
            raise LinkBroken(endpoint.node, self.name, f"the connection broke {left} bytes before the end of the file")

    async def _decode(self, program: Program, endpoint: Endpoint, left: int) -> AsyncIterator[bytes]:
        """Up to *left* bytes of what the other side encoded; fewer if the stream ends before."""
        while left > 0 and (chunk := await program.output.read(min(left, CHUNK_BYTES_MAX))):
            left -= len(chunk)
            yield chunk

    def _encode(self, chunk: bytes) -> bytes:
        return chunk

    async def read_batch(self, endpoint: Endpoint, blobs: Sequence[str]) -> AsyncIterator[tuple[str, bytes]]:
        names = {f"{check_blob(blob)[:2]}/{blob}": blob for blob in blobs}
        async with self._ask(endpoint, remote.BATCH, "batch") as (program, answer):
            if answer != "ok":
                raise self._problem(endpoint, "batch", answer)
            feeding = asyncio.get_running_loop().create_task(_feed(program, names))
            try:
                blocks = _Blocks(self._decode(program, endpoint, 1 << 62))
                while header := await blocks.take(BLOCKSIZE):
                    if not header.strip(b"\0"):
                        return
                    name, size = _parse_header(header)
                    if name not in names or size > BATCH_BLOB_BYTES_MAX:
                        raise LinkBroken(endpoint.node, self.name, "it sent what was not asked for")
                    data = await blocks.take(-(-size // BLOCKSIZE) * BLOCKSIZE)
                    if len(data) < size:
                        break
                    yield names[name], data[:size]
                raise LinkBroken(endpoint.node, self.name, await program.explain())
            finally:
                feeding.cancel()
                await asyncio.gather(feeding, return_exceptions=True)

    async def is_good(self, endpoint: Endpoint, blob: str) -> bool:
        async with self._ask(endpoint, remote.CHECK, check_blob(blob), seconds_max=_HASH_SECONDS_MAX) as (_, answer):
            if answer not in ("good", "bad"):
                raise self._problem(endpoint, blob, answer)
            return answer == "good"

    async def room(self, endpoint: Endpoint) -> int:
        """Free bytes of the disk there."""
        async with self._ask(endpoint, remote.ROOM, "room") as (_, answer):
            return self._number(endpoint, "", answer)

    async def push(self, endpoint: Endpoint, blob: str, size: int, source: Source, on_bytes: OnBytes) -> int:
        async with self._ask(endpoint, remote.PUSH, check_blob(blob), size) as (program, answer):
            if answer == "stored":
                return 0
            sent, offset = 0, self._number(endpoint, blob, answer)
            async for chunk in source(offset):
                try:
                    async with asyncio.timeout(self._links.silence_seconds_max):
                        is_open = await program.write(self._encode(chunk))
                except TimeoutError as error:
                    reason = f"it took no bytes for {self._links.silence_seconds_max:g} s"
                    raise Stalled(endpoint.node, self.name, reason) from error
                if not is_open:
                    break
                sent += len(chunk)
                on_bytes(len(chunk))
            program.input.close()
            outcome = await self._read_answer(program, endpoint, blob, _HASH_SECONDS_MAX)
            if outcome != "stored":
                raise self._problem(endpoint, blob, outcome or await program.explain())
            return sent

    def _number(self, endpoint: Endpoint, blob: str, answer: str) -> int:
        if not answer.isdecimal():
            raise self._problem(endpoint, blob, answer)
        return int(answer)

    def _problem(self, endpoint: Endpoint, blob: str, answer: str) -> Exception:
        where = f"{endpoint.node}:{endpoint.folder}"
        if answer == "absent":
            return NoRoute(blob, [endpoint.node])
        if answer == "corrupt":
            return Corrupt(blob, where)
        if answer == "full":
            return NoRoom(where)
        return LinkBroken(endpoint.node, self.name, _PROBLEMS.get(answer, answer))

    @asynccontextmanager
    async def _ask(
        self, endpoint: Endpoint, script: str, tag: str, *arguments: object, seconds_max: float = 0.0
    ) -> AsyncIterator[tuple[Program, str]]:
        """Run *script* at the first address that answers.  Raises LinkBroken with the reason of each that does not."""
        check_endpoint(endpoint)
        command = remote_command(script, endpoint.folder, endpoint.node, tag, self._code, *arguments)
        reasons = list[str]()
        for address in self.ordered(endpoint):
            async with Program.run([*make_ssh(self._links, endpoint), "--", address, command], endpoint) as program:
                answer = await self._read_answer(program, endpoint, tag, seconds_max)
                if answer is not None:
                    self._answered[endpoint.node] = address
                    yield program, answer
                    return
                reasons.append(f"{address}: {await program.explain()}")
        raise LinkBroken(endpoint.node, self.name, "; ".join(reasons) or "no address is known")

    def ordered(self, endpoint: Endpoint) -> list[str]:
        """The addresses of *endpoint* as they are tried: first the one that answered last."""
        last = self._answered.get(endpoint.node, "")
        return sorted(endpoint.addresses, key=lambda address: address != last)

    async def _read_answer(self, program: Program, endpoint: Endpoint, tag: str, seconds_max: float) -> str | None:
        seconds = seconds_max or self._links.connect_seconds_max + self._links.silence_seconds_max
        try:
            async with asyncio.timeout(seconds):
                return await program.read_answer(tag)
        except TimeoutError as error:
            raise Stalled(endpoint.node, self.name, f"no answer for {seconds:g} s") from error


async def _feed(program: Program, names: Iterable[str]) -> None:
    await program.write("".join(f"{name}\n" for name in names).encode())
    program.input.close()


def _parse_header(block: bytes) -> tuple[str, int]:
    """Name and size of the next file of a tar archive; an empty name if it is no header."""
    # tarfile takes as long for a header as the rest of a small file: no other field counts here.
    size, check = block[124:136].strip(b"\0 "), block[148:156]
    try:
        is_sound = sum(block) - sum(check) + sum(b" " * len(check)) == int(check.strip(b"\0 "), 8)
        return (block[:100].rstrip(b"\0").decode("ascii"), int(size, 8)) if is_sound else ("", 0)
    except ValueError:
        return "", 0


class _Blocks:
    """Chunks, taken in other sizes."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks, self._buffer = chunks, bytearray()

    async def take(self, size: int) -> bytes:
        """The next *size* bytes; fewer at the end."""
        while len(self._buffer) < size and (chunk := await anext(self._chunks, None)):
            self._buffer += chunk
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data
