"""A place of backups holds verified blobs and whole notes, in a folder as in a bucket."""

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import obstore
import pytest
from obstore.store import S3Store

from contract.engines import run
from ringrift.kernel.errors import Corrupt, InputError, NodeAway, NoRoute, SettingsError, UnknownName
from ringrift.kernel.wire_errors import PlaceAway
from ringrift.sync.places import Place, open_place, require_place
from ringrift.sync.transports.ports import Endpoint
from ringrift.sync.transports.s3 import S3Transport
from s3_server import S3Server

SMALL, LARGE = b"some games", bytes(range(256)) * 4 * 9 * 1024  # the large one needs several requests


def name_of(data: bytes) -> str:
    """The name of a blob with these bytes."""
    return hashlib.sha256(data).hexdigest()


async def pieces(data: bytes, size: int = 1024 * 1024) -> AsyncIterator[bytes]:
    """*data* as it is read from a disk."""
    for at in range(0, len(data), size):
        yield data[at : at + size]


async def cut(data: bytes) -> AsyncIterator[bytes]:
    """*data*, from a source that fails in its middle."""
    yield data[: len(data) // 2]
    raise NodeAway("source")


async def whole(place: Place, blob: str) -> bytes:
    """All bytes of *blob*."""
    return b"".join([chunk async for chunk in place.read(blob)])


async def listed(place: Place) -> dict[str, int]:
    """All blobs there."""
    return {name: size async for page in place.names() for name, size in page.items()}


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Every engine of places in turn."""
    if request.param == "folder":
        return open_place(str(tmp_path / "place"))
    server: S3Server = request.getfixturevalue("s3")
    return open_place(server.address)


@pytest.mark.parametrize("data", [SMALL, b"", LARGE], ids=["small", "empty", "large"])
def test_a_blob_comes_back_as_it_was(place: Place, data: bytes) -> None:
    """It is listed with its size, read in bounded chunks, and gone once it is deleted."""

    async def story() -> None:
        blob = name_of(data)

        assert await place.write(blob, pieces(data)) == len(data)
        assert await whole(place, blob) == data
        assert await listed(place) == {blob: len(data)}
        assert max([len(chunk) async for chunk in place.read(blob)], default=0) <= 1024 * 1024

        await place.delete([blob])

        assert await listed(place) == {}
        with pytest.raises(NoRoute):
            await whole(place, blob)

    run(story())


@pytest.mark.parametrize("data", [SMALL, LARGE], ids=["small", "large"])
def test_other_bytes_leave_nothing(place: Place, data: bytes) -> None:
    """Bytes that are not those of the name are refused at their end, and a source that fails leaves nothing either."""

    async def story() -> None:
        with pytest.raises(Corrupt):
            await place.write(name_of(data), pieces(data[:-1] + b"?"))
        with pytest.raises(NodeAway):
            await place.write(name_of(data), cut(data))

        assert await listed(place) == {}

    run(story())


def damage(place: Place, blob: str, tmp_path: Path) -> None:
    """Replace the bytes of *blob* behind the back of *place*."""
    key = f"blobs/{blob[:2]}/{blob}"
    if not place.address.startswith("s3://"):
        (tmp_path / "place" / key).write_bytes(b"damaged")
        return
    store = S3Store.from_url(place.address, client_options={"allow_http": True})
    obstore.put(store, key, b"damaged")


def test_a_damaged_blob_is_never_read_as_good(place: Place, tmp_path: Path) -> None:
    """Whatever the place has under the name: reading it ends with an error."""

    async def story() -> None:
        await place.write(name_of(SMALL), pieces(SMALL))
        damage(place, name_of(SMALL), tmp_path)

        with pytest.raises(Corrupt):
            await whole(place, name_of(SMALL))

    run(story())


def test_notes_are_listed_in_order(place: Place) -> None:
    """A note is read as it was written, until it is deleted."""

    async def story() -> None:
        assert await place.notes("backups") == []
        for name in ("2.json", "1.json", "3.json"):
            await place.write_note("backups", name, name.encode())
        await place.delete_note("backups", "3.json")

        assert await place.notes("backups") == ["1.json", "2.json"]
        assert await place.read_note("backups", "1.json") == b"1.json"
        with pytest.raises(UnknownName):
            await place.read_note("backups", "3.json")

    run(story())


def test_a_place_belongs_to_one_store(place: Place) -> None:
    """It is marked at its first use; another store is refused there."""

    async def story() -> None:
        await require_place(place, "store-a", is_known=False)
        await require_place(place, "store-a", is_known=True)
        with pytest.raises(InputError, match="another store"):
            await require_place(open_place(place.address), "store-b", is_known=False)

        assert await place.read_owner() == "store-a"

    run(story())


def test_a_known_place_without_its_marker_is_away(place: Place) -> None:
    """An empty mount point looks like an empty folder: nothing is written there."""

    async def story() -> None:
        with pytest.raises(PlaceAway, match="mount its drive"):
            await require_place(place, "store-a", is_known=True)

        assert await place.read_owner() == ""

    run(story())


def test_a_drive_that_goes_away_in_the_middle_gets_nothing(tmp_path: Path) -> None:
    """Once its marker is gone, neither a blob nor a note is written to what is there instead."""
    root = tmp_path / "place"
    place = open_place(str(root))

    async def story() -> None:
        await require_place(place, "store-a", is_known=False)
        root.rename(tmp_path / "drive")
        (root / "blobs").mkdir(parents=True)

        with pytest.raises(NodeAway):
            await place.write(name_of(SMALL), pieces(SMALL))
        with pytest.raises(NodeAway):
            await place.write_note("backups", "1.json", b"{}")

        assert [path for path in root.rglob("*") if path.is_file() and path.name != "lock"] == []

    run(story())


@pytest.mark.parametrize("name", ["../escape", ".hidden", "", "a/b"])
def test_the_name_of_a_note_leads_nowhere_else(tmp_path: Path, name: str) -> None:
    """Names may come from another machine."""
    with pytest.raises(InputError):
        run(open_place(str(tmp_path)).read_note("backups", name))


def test_a_bucket_that_does_not_answer_is_away(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says where and why, and no secret."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    place = open_place(s3.address)

    with pytest.raises(NodeAway) as away:
        run(place.notes("backups"))

    assert s3.address in str(away.value)
    assert "canary" not in str(away.value)


def test_a_bucket_that_is_not_there_is_away(s3: S3Server) -> None:
    """A misspelt bucket is no place without backups, to which some would be written."""
    with pytest.raises((NodeAway, UnknownName)):
        run(open_place("s3://no-such-bucket/x").write(name_of(SMALL), pieces(SMALL)))


def test_an_address_without_a_bucket_is_refused() -> None:
    """The message has the form of an address."""
    with pytest.raises(SettingsError, match="s3://BUCKET"):
        open_place("s3://")


def test_a_transfer_from_a_bucket_goes_on_where_it_was(s3: S3Server) -> None:
    """A blob that was pushed is read from any offset on, in bounded chunks, and behind its end there is nothing."""
    transport, counts = S3Transport(), list[int]()
    endpoint = Endpoint(node="bucket", transport="s3", addresses=(s3.address,))

    async def story() -> None:
        blob = name_of(LARGE)
        sent = await transport.push(endpoint, blob, len(LARGE), lambda offset: pieces(LARGE[offset:]), counts.append)
        for offset in (0, 1, len(LARGE) // 2, len(LARGE)):
            chunks = [chunk async for chunk in transport.read(endpoint, blob, offset)]
            assert b"".join(chunks) == LARGE[offset:]
        assert sent == sum(counts) == len(LARGE)
        with pytest.raises(NoRoute):
            [chunk async for chunk in transport.read(endpoint, name_of(SMALL), 0)]
        with pytest.raises(InputError):
            transport.read(Endpoint(node="x", transport="s3", addresses=("http://x",)), blob, 0)

    run(story())
