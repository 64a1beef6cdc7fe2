"""Buckets: blobs and notes in object storage, by the protocol of S3.

An object appears whole or not at all, so a blob is hashed on its way there and the upload is given up before its end
if the hash is another.  Credentials, region and endpoint come from the variables that every S3 program reads
(AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL): no setting and no message has them.
"""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from typing import Any

from ringrift.kernel.errors import Corrupt, InputError, NoRoute, SettingsError, UnknownName
from ringrift.kernel.extras import require_module
from ringrift.kernel.ids import check_blob, is_blob
from ringrift.kernel.wire_errors import LinkBroken
from ringrift.sync.transports.ports import CHUNK_BYTES_MAX, Endpoint, OnBytes, Source
from ringrift.threads import to_its_end

SCHEME = "s3://"
BUCKET = "bucket"  #: The holder that the bucket of the settings is, in the ledger and in plans.
_OWNER, _COPIES = "owner", "copies"
_PART_BYTES = 8 * 1024 * 1024  # of one request; a blob that is not larger needs a single one
_PARTS_AT_ONCE = 4  # of one upload, so that its memory is bounded
_PAGE = 1_000
_ROOM_BYTES = 1 << 60
_RETRIES, _RETRY_SECONDS = 4, 30.0
_CONNECT_SECONDS, _REQUEST_SECONDS = 10.0, 3600.0  # a request may carry a large file
_REASON_CHARACTERS_MAX = 200


class Bucket:
    """A place of backups at ``s3://bucket/prefix``, as :class:`ringrift.sync.places.Place`."""

    def __init__(self, address: str) -> None:
        bucket, _, self._prefix = address.removeprefix(SCHEME).strip("/").partition("/")
        if not bucket:
            raise SettingsError("place", address, "must be s3://BUCKET or s3://BUCKET/PREFIX")
        self.address = f"{SCHEME}{bucket}/{self._prefix}".rstrip("/")
        self._obstore, self._errors = (require_module(name, "cluster") for name in ("obstore", "obstore.exceptions"))
        times = {"connect_timeout": f"{_CONNECT_SECONDS:g}s", "timeout": f"{_REQUEST_SECONDS:g}s"}
        # Beside an https address this allows nothing: it is for servers of one's own network, by AWS_ENDPOINT_URL.
        client = times | {"allow_http": True}
        retry = {"max_retries": _RETRIES, "retry_timeout": timedelta(seconds=_RETRY_SECONDS)}
        # With this every upload carries its SHA-256, and the server refuses bytes that were damaged on the way.
        config = {"checksum_algorithm": "sha256"}
        make = require_module("obstore.store", "cluster").S3Store.from_url
        self._store = make(self.address, config=config, client_options=client, retry_config=retry)

    @contextmanager
    def _typed(self, absent: Exception | None = None) -> Iterator[None]:
        """Raise *absent* for what is not there, and LinkBroken if the bucket is not, does not answer or refuses."""
        try:
            yield
        except FileNotFoundError as error:
            raise absent or LinkBroken(self.address, "s3", "there is no such bucket") from error
        except (self._errors.BaseError, PermissionError, TimeoutError, ConnectionError) as error:
            reason = str(error).partition("\n")[0][:_REASON_CHARACTERS_MAX]
            raise LinkBroken(self.address, "s3", reason) from error

    async def read_owner(self) -> str:
        try:
            return (await self.read_note(_OWNER, "store")).decode()
        except UnknownName:
            return ""

    async def mark(self, owner: str) -> None:
        if await self.read_owner() != owner:
            await self.write_note(_OWNER, "store", owner.encode())

    async def names(self) -> AsyncIterator[Mapping[str, int]]:
        async for page in self._list("blobs/"):
            yield {name: size for name, size in page.items() if is_blob(name)}

    async def _list(self, prefix: str) -> AsyncIterator[dict[str, int]]:
        """The last parts of the names of objects below *prefix*, with their sizes."""
        with self._typed():
            pages = self._obstore.list(self._store, prefix=prefix, chunk_size=_PAGE)
        while True:
            with self._typed():
                page = await anext(pages, None)
            if page is None:
                return
            yield {meta["path"].rpartition("/")[2]: meta["size"] for meta in page}

    async def read(self, blob: str) -> AsyncIterator[bytes]:
        digest = hashlib.sha256()
        async for chunk in self.read_from(blob, 0):
            await to_its_end(None, digest.update, chunk)
            yield chunk
        if digest.hexdigest() != blob:
            raise Corrupt(blob, self.address)

    async def read_from(self, blob: str, offset: int) -> AsyncIterator[bytes]:
        """The bytes of *blob* from *offset* on, not verified.  Raises NoRoute, LinkBroken."""
        with self._typed(NoRoute(blob, [self.address])):
            if offset and offset >= (await self._obstore.head_async(self._store, _key(blob)))["size"]:
                return
            options = {"range": {"offset": offset}} if offset else None
            answer = await self._obstore.get_async(self._store, _key(blob), options=options)
            chunks = aiter(answer.stream(min_chunk_size=CHUNK_BYTES_MAX // 2))
        while True:
            with self._typed(NoRoute(blob, [self.address])):
                chunk = await anext(chunks, None)
            if chunk is None:
                return
            view = memoryview(chunk)
            for at in range(0, len(view), CHUNK_BYTES_MAX):
                yield bytes(view[at : at + CHUNK_BYTES_MAX])

    async def write(self, blob: str, chunks: AsyncIterator[bytes]) -> int:
        digest, size, first = hashlib.sha256(), 0, bytearray()

        async def checked() -> AsyncIterator[bytes]:
            nonlocal size
            async for chunk in chunks:
                await to_its_end(None, digest.update, chunk)
                size += len(chunk)
                yield chunk
            if digest.hexdigest() != blob:
                raise Corrupt(blob, "the received data")  # before its end: the object never appears

        async def joined() -> AsyncIterator[bytes]:
            yield bytes(first)
            async for chunk in rest:
                yield chunk

        rest = checked()
        async for chunk in rest:
            first += chunk
            if len(first) > _PART_BYTES:
                break
        body = joined() if len(first) > _PART_BYTES else bytes(first)
        options: dict[str, Any] = {"chunk_size": _PART_BYTES, "max_concurrency": _PARTS_AT_ONCE}
        with self._typed():
            await self._obstore.put_async(self._store, _key(blob), body, **options)
        return size

    async def delete(self, blobs: Collection[str]) -> None:
        names = sorted(blobs)
        for at in range(0, len(names), _PAGE):
            with self._typed():
                await self._obstore.delete_async(self._store, [_key(blob) for blob in names[at : at + _PAGE]])

    async def notes(self, kind: str) -> list[str]:
        return sorted([name async for page in self._list(f"{kind}/") for name in page])

    async def read_note(self, kind: str, name: str) -> bytes:
        with self._typed(UnknownName(kind, name)):
            answer = await self._obstore.get_async(self._store, f"{kind}/{name}")
            return bytes(await answer.bytes_async())

    async def write_note(self, kind: str, name: str, body: bytes) -> None:
        with self._typed():
            await self._obstore.put_async(self._store, f"{kind}/{name}", body)

    async def delete_note(self, kind: str, name: str) -> None:
        with self._typed():
            await self._obstore.delete_async(self._store, f"{kind}/{name}")


def _key(blob: str) -> str:
    return f"blobs/{check_blob(blob)[:2]}/{blob}"


class S3Transport:
    """Copies in a bucket, which runs nothing of ours: reading, pushing and checking them.

    They lie apart from backups at the same address: pruning those would delete them.
    """

    name = "s3"

    def __init__(self) -> None:
        self._bucket = cache(Bucket)  # one for each address: its connections are shared

    def _at(self, endpoint: Endpoint) -> Bucket:
        if not endpoint.addresses or not endpoint.addresses[0].startswith(SCHEME):
            raise InputError(f"node {endpoint.node} has no address that begins with {SCHEME}")
        return self._bucket(f"{endpoint.addresses[0].rstrip('/')}/{_COPIES}")

    def read(self, endpoint: Endpoint, blob: str, offset: int) -> AsyncIterator[bytes]:
        return self._at(endpoint).read_from(blob, offset)

    async def push(self, endpoint: Endpoint, blob: str, size: int, source: Source, on_bytes: OnBytes) -> int:
        async def counted() -> AsyncIterator[bytes]:
            async for chunk in source(0):
                on_bytes(len(chunk))
                yield chunk

        return await self._at(endpoint).write(blob, counted())

    async def is_good(self, endpoint: Endpoint, blob: str) -> bool:
        """Whether the copy matches its name: a server hashes nothing, so it is read once more."""
        try:
            async for _ in self._at(endpoint).read(blob):
                pass
        except Corrupt:
            return False
        return True

    async def room(self, endpoint: Endpoint) -> int:
        """More than there will ever be, if the bucket answers.  Raises NodeAway."""
        await self._at(endpoint).notes(_OWNER)
        return _ROOM_BYTES


def bucket_finder(address: str) -> Callable[[str], Awaitable[Sequence[Endpoint]]]:
    """The way to the bucket at *address*, a holder of the name BUCKET."""

    async def find(node: str) -> Sequence[Endpoint]:
        return [Endpoint(node=BUCKET, transport="s3", addresses=(address,))] if node == BUCKET else []

    return find
