"""Games, samples and models are files with one way to be written, and nothing else gets in."""

import json
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load as read_safetensors

from ringrift_reversi import records, tensors
from ringrift_reversi.records import FULL, TOP, Games

VARIANT = "square8_2p"


def games() -> Games:
    """Two games that obey no rules, which is not the business of this file."""
    pi_p = np.zeros((5, TOP), np.float16)
    pi_p[:, 0] = 1
    return Games(
        moves=np.array([1, 2, 3, 4, 5], np.uint16),
        offsets=np.array([0, 2, 5], np.uint32),
        pi_idx=np.zeros((5, TOP), np.uint16),
        pi_p=pi_p,
        root_v=np.full((5, 2), 0.5, np.float16),
        result=np.array([[1, 0], [0.5, 0.5]], np.float32),
        seed=np.array([7, 8], np.uint64),
        search=np.full(5, FULL, np.uint8),
    )


def test_games_survive_packing() -> None:
    """Packed games unpack with their metadata, and pack to the same bytes again."""
    data = records.pack(games(), VARIANT, {"model": "ab"})

    columns, words = records.unpack(data, VARIANT)

    assert words["model"] == "ab"
    assert records.pack(columns, VARIANT, {"model": "ab"}) == data


def test_the_safetensors_library_reads_our_files() -> None:
    """What is compressed is the public format, not a dialect."""
    data = records.pack(games(), VARIANT, {})
    columns = read_safetensors(zlib.decompress(read_safetensors(data)["zlib"].tobytes()))

    assert columns["moves"].tolist() == [1, 2, 3, 4, 5]
    assert columns["pi_p"].dtype == np.float16
    assert columns["result"].tolist() == [[1, 0], [0.5, 0.5]]


def test_files_of_the_version_before_are_read() -> None:
    """They were not compressed; the same games are in them."""
    meta = {"model": "ab", "variant": VARIANT, "format": records._FORMAT}

    columns, words = records.unpack(tensors.pack(records.arrays(games()), meta), VARIANT)

    assert words["model"] == "ab"
    assert records.pack(columns, VARIANT, {"model": "ab"}) == records.pack(games(), VARIANT, {"model": "ab"})


def test_a_version_that_knows_no_compression_says_which_format_a_file_has() -> None:
    """It reads the metadata, where it expects its own format."""
    _, words = tensors.unpack(records.pack(games(), VARIANT, {}))

    assert words == {"format": "reversi-games-2"}


def test_games_take_less_than_half_of_their_size() -> None:
    """Much of a policy target is zeros: 3,000 games took 119 MB when they and their samples were not compressed."""
    many = records.join([games()] * 200)

    assert 2 * len(records.pack(many, VARIANT, {})) < len(tensors.pack(records.arrays(many), {}))


def test_a_compressed_file_cannot_become_larger_than_is_allowed() -> None:
    """A few bytes may hold a gigabyte: it is refused before it has that size."""
    bomb = tensors.compress(b"\0" * 10_000_000)

    with pytest.raises(ValueError, match="unpacks to more than 1000000 bytes"):
        tensors.unpack(bomb, 1_000_000)


@pytest.mark.parametrize("more", [b"x", tensors.compress(b"y")])
def test_a_compressed_file_has_nothing_behind_its_end(more: bytes) -> None:
    """Also if its checksum is right."""
    body = zlib.compress(tensors.pack(records.arrays(games()), {})) + more
    data = tensors.pack({"zlib": np.frombuffer(body, np.uint8)}, {})

    with pytest.raises(ValueError, match="has more behind its end"):
        tensors.unpack(data, 1_000_000)


def test_games_are_picked_and_joined_by_number() -> None:
    """Whole games can be put in another order."""
    turned = records.pick(games(), np.array([1, 0]))
    back = records.join([records.pick(turned, np.array([1])), records.pick(turned, np.array([0]))])

    assert turned.moves.tolist() == [3, 4, 5, 1, 2]
    assert records.pack(back, VARIANT, {}) == records.pack(games(), VARIANT, {})


def test_a_single_flipped_bit_is_detected() -> None:
    """No byte of a file is without a check."""
    data = records.pack(games(), VARIANT, {})
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 1

        with pytest.raises(
            ValueError, match=r"not a safetensors file|its header|its checksum|not a file of games|its games|its array"
        ):
            records.unpack(bytes(damaged), VARIANT)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"moves": np.array([1, 2, 3, 4, 64], np.uint16)}, "other cells than"),
        ({"offsets": np.array([0, 3, 2], np.uint32)}, "offsets"),
        ({"offsets": np.array([0, 2, 2, 5], np.uint32)}, "its array offsets"),
        ({"moves": np.zeros((5, 1), np.uint16)}, "its array "),
        ({"moves": np.zeros(5, np.int64)}, "its array moves"),
        ({"root_v": np.full((5, 2), np.nan, np.float16)}, "not finite"),
        ({"pi_p": np.zeros((5, TOP), np.float16)}, "policy target is negative"),
        ({"search": np.zeros(5, np.uint8)}, "without a full search"),
        ({"result": np.zeros((2, 3), np.float32)}, "its array result"),
    ],
)
def test_games_of_wrong_shape_or_numbers_are_refused_by_name(change: dict[str, Any], complaint: str) -> None:
    """The reason names the defect."""
    data = records.pack(replace(games(), **change), VARIANT, {})

    with pytest.raises(ValueError, match=complaint):
        records.unpack(data, VARIANT)


def test_games_of_another_variant_are_refused() -> None:
    """A file records its variant."""
    with pytest.raises(ValueError, match="hex8_2p"):
        records.unpack(records.pack(games(), VARIANT, {}), "hex8_2p")


def test_a_truncated_file_is_refused() -> None:
    """Wherever it was cut."""
    data = records.pack(games(), VARIANT, {})
    for length in (0, 3, 8, 100, len(data) - 1):
        with pytest.raises(
            ValueError, match=r"not a safetensors file|its header|its checksum|not a file of games|its games|its array"
        ):
            records.unpack(data[:length], VARIANT)


@pytest.mark.parametrize(
    "header",
    [
        b"[]",
        b"{}",
        b"[" * 60_000,
        json.dumps({"__metadata__": {}, "moves": {"dtype": "F32", "shape": [2**62], "data_offsets": [0, 8]}}).encode(),
        json.dumps({"__metadata__": {}, "moves": {"dtype": "O", "shape": [1], "data_offsets": [0, 8]}}).encode(),
        json.dumps({"__metadata__": {}, "moves": {"dtype": "U8", "shape": [9], "data_offsets": [0, 9]}}).encode(),
        json.dumps({"__metadata__": {}, "moves": {"dtype": "U8", "shape": ["8"], "data_offsets": [0, 8]}}).encode(),
    ],
)
def test_an_inconsistent_header_is_refused(header: bytes) -> None:
    """Objects, arrays that are larger than the file, and nonsense are refused."""
    with pytest.raises(
        ValueError, match=r"not a safetensors file|its header|its checksum|not a file of games|its games|its array"
    ):
        tensors.unpack(len(header).to_bytes(8, "little") + header + b"\0" * 8)


def test_a_huge_header_is_refused_before_it_is_read() -> None:
    """A length alone allocates no memory."""
    with pytest.raises(ValueError, match="header of"):
        tensors.unpack((2**60).to_bytes(8, "little") + b"{}")
