"""The documented checks of copies: checksums, receipts, Bloom filters and the constants that are in force."""

import hashlib
from pathlib import Path

import pytest

from compat.subscribers import home
from ringrift.kernel.settings import BandwidthSettings
from ringrift.sync import ledger, receipts
from ringrift.sync.receipts import Receipt
from ringrift_compat.embedded_node import embedded
from ringrift_compat.sync.bloom_filter import BloomFilter, get_node_filter
from ringrift_compat.sync.transfer_verification import compute_file_checksum, verify_transfer

__all__ = ["home"]
BLOBS = [hashlib.sha256(bytes([number])).hexdigest() for number in range(50)]


def hold(node: str, *blobs: str, size: int = 7) -> None:
    """Write down that *node* got verified copies of *blobs*."""

    async def write() -> None:
        async with embedded.node().store.begin() as tx:
            await ledger.add(tx, [(blob, node, size) for blob in blobs])
            for blob in blobs:
                fields = {"source": "a", "transport": "ssh", "seconds": 1.0, "time": 1.0}
                await receipts.record(tx, Receipt(blob=blob, node=node, size=size, **fields))

    embedded.call(write())


def test_a_checksum_is_that_of_the_bytes(tmp_path: Path) -> None:
    """Of a file larger than one piece, by every algorithm that is served; another one is refused."""
    path = tmp_path / "file"
    path.write_bytes(data := bytes(range(256)) * 5000)

    assert compute_file_checksum(path) == hashlib.sha256(data).hexdigest()
    assert compute_file_checksum(path, "blake2b") == hashlib.blake2b(data).hexdigest()
    with pytest.raises(ValueError, match="sha256"):
        compute_file_checksum(path, "crc32")


def test_a_copy_is_compared_with_its_source(tmp_path: Path) -> None:
    """Equal bytes verify; one flipped bit or a missing byte does not, and a bad copy is set aside if asked for."""
    source, dest = tmp_path / "source", tmp_path / "dest"
    source.write_bytes(b"games" * 100)
    dest.write_bytes(b"games" * 100)
    good = verify_transfer(source, dest)
    assert good
    assert (good.size, good.checksum, good.reason) == (500, compute_file_checksum(source), "")

    for damage in (b"games" * 99 + b"gamer", b"games" * 100 + b"!", b"games" * 99, b""):
        dest.write_bytes(damage)
        assert not verify_transfer(source, dest)
    bad = verify_transfer(source, dest, quarantine=True)

    assert not bad
    assert "damaged" in bad.reason
    assert not dest.exists()
    assert Path(bad.quarantined).read_bytes() == b""


def test_a_copy_is_compared_with_a_checksum(tmp_path: Path) -> None:
    """The source need not be here; the expected checksum may be in capitals."""
    dest = tmp_path / "dest"
    dest.write_bytes(b"x")

    assert verify_transfer("node-1:/x", dest, hashlib.sha256(b"x").hexdigest().upper())
    assert not verify_transfer("node-1:/x", dest, hashlib.sha256(b"y").hexdigest())
    assert "cannot be read" in verify_transfer("node-1:/x", tmp_path / "none", "00").reason


def test_the_receipt_of_a_node_answers_for_its_copy() -> None:
    """A file by its name and a node by its id: verified only if that node has recorded a copy."""
    hold("near", BLOBS[0])

    assert verify_transfer(BLOBS[0], "near").size == 7
    answer = verify_transfer(BLOBS[0], "far")
    assert not answer
    assert "near" in answer.reason


def test_a_filter_has_all_that_was_added_and_little_else() -> None:
    """No false negatives; false positives within twice the rate that was asked for."""
    bloom = BloomFilter(2000, 0.02)
    bloom.update(f"in-{number}" for number in range(2000))

    assert all(f"in-{number}" in bloom for number in range(2000))
    errors = 5000 - len(bloom.missing(f"out-{number}" for number in range(5000)))
    assert 0 < errors < 200
    assert BloomFilter().missing(["x"]) == ["x"]


def test_a_filter_goes_to_another_machine() -> None:
    """Its bytes make the same filter; other bytes are refused."""
    bloom = BloomFilter(100)
    bloom.add("a")
    other = BloomFilter.from_bytes(bloom.to_bytes())

    assert "a" in other
    assert other.to_bytes() == bloom.to_bytes()
    for bad in (b"", b"\0" * 20, bloom.to_bytes()[:-1], bytes([255]) + bloom.to_bytes()[1:]):
        with pytest.raises(ValueError, match="Bloom"):
            BloomFilter.from_bytes(bad)
    for capacity, rate in ((0, 0.1), (10, 0.0), (10, 1.0)):
        with pytest.raises(ValueError, match="capacity"):
            BloomFilter(capacity, rate)


def test_the_filter_of_a_node_has_what_the_ledger_lists_for_it() -> None:
    """What a sender need not send; the files of other nodes are not in it."""
    hold("near", *BLOBS[:25])
    hold("far", *BLOBS[25:])

    assert get_node_filter("near", 1e-6).missing(BLOBS) == BLOBS[25:]
    assert get_node_filter("other", 1e-6).missing(BLOBS) == BLOBS


def test_the_constants_are_those_in_force() -> None:
    """The classes are those that settings accept, and the time is that of the strategy."""
    from app.coordination import sync_constants

    from ringrift.sync import strategies

    assert all(BandwidthSettings(classes={name: 1.0}) for name in sync_constants.TRANSFER_CLASSES)
    assert sync_constants.PUSH_SECONDS_MAX is strategies.PUSH_SECONDS_MAX
