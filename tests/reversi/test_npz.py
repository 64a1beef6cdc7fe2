"""Datasets as .npz: exported for others, and checked as if they were made to do harm."""

import asyncio
import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from reversi.test_ingest import game, run
from ringrift.cli.command import Output
from ringrift.cli.main import _load
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import InputError, UnknownName
from ringrift.kernel.settings import Settings
from ringrift.node import Node
from ringrift.store.open import open_store
from ringrift.store.ports import Origin
from ringrift.sync import ledger
from ringrift.workload.api import JobSpec
from ringrift.workload.npz import NpzArray, main, validate_npz
from ringrift.workload.scratch import Scratch
from ringrift_reversi import samples
from ringrift_reversi.workload import Reversi
from unit.cli.command_output import ask, context

V = "square8_2p"
SECONDS_MAX = 60.0


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Samples of three games."""
    folder = tmp_path_factory.mktemp("samples")
    batch = run(folder, [game(seed) for seed in range(3)]).outputs[0].blob
    export = JobSpec("e", "export", V, 0, {"batches": (batch,)})
    [output] = Reversi().run(export, Scratch(folder)).outputs
    return Scratch(folder).open_input(output.blob).read_bytes()


def export(home: Path, dataset: bytes, *words: str) -> Output:
    """The output of the command, in a home whose only samples are *dataset*."""

    async def story() -> Output:
        settings, clock = Settings.local(home), SystemClock()
        opened = open_store(settings.store, clock)
        async with asyncio.timeout(SECONDS_MAX), opened as store:
            async with Node.open(settings, clock, Random(1), store=store, begin=()) as node:
                [blob] = await node.blobs.put([dataset])
            async with store.begin() as tx:
                await ledger.add(tx, [(blob, node.node_id, len(dataset))])
                await tx.put_origins([Origin(blob=blob, node="n", kind="samples", variant=V, workload="reversi")])
            return await ask(store, "data", "export", *words)

    return asyncio.run(story())


def test_samples_are_exported_as_they_are(tmp_path: Path, dataset: bytes) -> None:
    """Every array and row is in the file, which is sound; nothing else is left beside it."""
    target = tmp_path / "out" / "set.npz"
    target.parent.mkdir()
    output = export(tmp_path / "home", dataset, "--npz", str(target))
    whole, report = samples.unpack(dataset, V), validate_npz(target)

    with np.load(target, allow_pickle=False) as arrays:
        assert (str(arrays["variant"]), str(arrays["format"])) == (V, "reversi-samples-1")
        for name in samples.Samples.__slots__:
            assert np.array_equal(arrays[name], getattr(whole, name))
    assert (output.code, output.value["rows"]) == (0, len(whole))
    assert (report.errors, report.rows) == ((), len(whole))
    assert report.arrays["pi_p"] == NpzArray("<f2", (len(whole), 16))
    assert [path.name for path in target.parent.iterdir()] == ["set.npz"]


def test_what_is_no_dataset_is_not_exported(tmp_path: Path, dataset: bytes) -> None:
    """An unknown hash, a damaged file and a folder that is not there are errors, and no file is written."""
    target = tmp_path / "set.npz"
    with pytest.raises(UnknownName):
        export(tmp_path / "a", dataset, "0123", "--npz", str(target))
    with pytest.raises(InputError, match=r"cannot export .*: its checksum is wrong"):
        export(tmp_path / "b", dataset[:-1] + bytes([dataset[-1] ^ 1]), "--npz", str(target))
    with pytest.raises(InputError, match="cannot export"):
        export(tmp_path / "c", dataset, "--npz", str(tmp_path / "nowhere" / "set.npz"))
    assert not target.exists()


def test_a_file_is_checked_without_a_store(tmp_path: Path) -> None:
    """The command names every array, and what is wrong, with exit code 1."""

    def check(name: str) -> Output | None:
        return _load("data").prepare(context(None, "data", "validate", str(tmp_path / name)))

    save(tmp_path / "good.npz", x=np.ones((3, 2), "<f4"))
    save(tmp_path / "bad.npz", x=np.ones(3), y=np.ones(2))
    good, bad = check("good.npz"), check("bad.npz")

    assert good is not None
    assert (good.code, good.text.split(": ")[1]) == (0, "sound, 3 rows\n  x            <f4 [3, 2]")
    assert bad is not None
    assert (bad.code, "its arrays have different lengths: 2, 3" in bad.text) == (1, True)
    with pytest.raises(InputError, match="cannot read"):
        check("nothing.npz")


def test_a_workload_without_the_hook_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The fake has no arrays."""
    assert main(["fake", "hex8_2p", str(tmp_path / "s"), str(tmp_path / "t")]) == 1
    assert capsys.readouterr().err == "the workload fake writes no .npz files\n"


def save(path: Path, **arrays: Any) -> Path:
    """A file with *arrays*."""
    np.savez(path, **arrays)
    return path


def members(path: Path, change: Callable[[str, bytes], bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    """The archive *path* with the bytes of its members changed."""
    target = path.with_suffix(".changed.npz")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w", compression) as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    return target


@pytest.mark.parametrize("dtype", ["i1", "u8", "<f2", ">f2", "<f4", ">f8", "c8", "?", "S3", "U2"])
def test_plain_arrays_are_sound(tmp_path: Path, dtype: str) -> None:
    """Numbers of any kind and byte order, text, and a scalar beside them."""
    report = validate_npz(save(tmp_path / "a.npz", x=np.ones((5, 2), dtype), about=np.array("text")))

    assert (report.errors, report.rows) == ((), 5)


@pytest.mark.parametrize("dtype", ["<f2", ">f2", "<f4", ">f4", "<f8", ">f8", "c8", "c16"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_is_found(tmp_path: Path, dtype: str, value: float) -> None:
    """Wherever it is, in any byte order."""
    array = np.ones(700_000, dtype)
    array[-1] = value

    assert validate_npz(save(tmp_path / "a.npz", x=array)).errors == ("array x: it has numbers that are not finite",)


def test_objects_would_run_code_and_are_refused(tmp_path: Path) -> None:
    """They are pickles; nothing is unpickled to find that out."""
    report = validate_npz(save(tmp_path / "a.npz", x=np.array([print], object)))

    assert report.errors[0] == "array x: it holds '|O', and not plain numbers or text: loading objects runs code"


def test_arrays_of_different_lengths_are_found(tmp_path: Path) -> None:
    """A row of one belongs to a row of each other."""
    assert validate_npz(save(tmp_path / "a.npz", x=np.ones(3), y=np.ones(4))).errors == (
        "its arrays have different lengths: 3, 4",
    )
    assert validate_npz(save(tmp_path / "a.npz", x=np.ones(0))).errors == ("it has no rows",)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda data: data[:-8], "array x: it has 144 bytes, which does not fit <f8 (3,)"),
        (lambda data: data + b"more", "array x: it has 156 bytes, which does not fit <f8 (3,)"),
        (lambda data: data.replace(b"(3,)", b"(-3)"), "array x: its shape is -3"),
        (lambda data: data.replace(b"(3,)", b"(9,)"), "array x: it has 152 bytes, which does not fit <f8 (9,)"),
        (lambda data: data.replace(b"descr", b"magic"), "array x: its header cannot be read"),
        (lambda data: b"\x93PYNUM" + data[6:], "array x: it is no array of numpy"),
    ],
    ids=["short", "long", "negative", "shape", "header", "magic"],
)
def test_an_array_must_be_what_its_header_says(tmp_path: Path, change: Callable[[bytes], bytes], error: str) -> None:
    """Sizes, shape and type are compared before anything is read."""
    path = members(save(tmp_path / "a.npz", x=np.ones(3)), lambda _, data: change(data))

    assert validate_npz(path).errors == (error,)


def test_any_flipped_byte_is_found(tmp_path: Path, dataset: bytes) -> None:
    """In the data by its checksum, elsewhere by the archive; another file is none."""
    samples.write_npz(samples.unpack(dataset, V), V, tmp_path / "a.npz")
    whole, random = (tmp_path / "a.npz").read_bytes(), Random(5)
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        largest = max(archive.infolist(), key=lambda member: member.compress_size)
    end = largest.header_offset + largest.compress_size
    for place in [random.randrange(largest.header_offset + 200, end) for _ in range(20)]:
        data = bytearray(whole)
        data[place] ^= 0x55
        (tmp_path / "b.npz").write_bytes(data)
        assert validate_npz(tmp_path / "b.npz").errors, place
    (tmp_path / "c.npz").write_bytes(whole[: len(whole) // 2])

    assert validate_npz(tmp_path / "c.npz").errors[0].startswith("it is damaged, or no .npz file")


def test_a_small_archive_that_unpacks_to_much_is_refused(tmp_path: Path) -> None:
    """Its sizes are read before it is unpacked."""
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros(1_000_000))

    assert "unpacks to more than 1000000 bytes" in validate_npz(tmp_path / "a.npz", bytes_max=1_000_000).errors[0]
