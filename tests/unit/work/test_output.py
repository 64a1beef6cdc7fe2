"""What jobs print is in files by job and attempt: bounded, with beginning and end, and nobody waits for the disk."""

import asyncio
import os
from pathlib import Path

import pytest

from ringrift.kernel.settings import LogSettings
from ringrift.work.launch.output import (
    _WAITING_BYTES_MAX,
    OutputFiles,
    OutputSplitter,
    attempts,
    job_mark,
    read_output,
    worker_name,
)

LIMIT = 1024
JOB, OTHER = "01JOB00A", "01JOB00B"


def written(folder: Path, *texts: tuple[str, bytes], limit: int = LIMIT, total: int = 65_536) -> OutputFiles:
    """Files after these *texts* were written, each to its name."""

    async def story() -> OutputFiles:
        files = OutputFiles(LogSettings(folder=str(folder), job_bytes_max=limit, jobs_bytes_max=total))
        for name, text in texts:
            files.write(name, text)
        await files.flush()
        return files

    return asyncio.run(story())


def text_of(folder: Path, name: str, attempt: int = 1) -> bytes:
    """The output of an attempt, without what is missing."""
    return b"".join(piece.data for piece in read_output(folder, name, attempt))


def size_of(folder: Path) -> int:
    """The bytes of all files of outputs."""
    return sum(path.stat().st_size for path in (folder / "jobs").glob("*/*.log"))


def test_a_short_output_is_whole(tmp_path: Path) -> None:
    """Attempts have files of their own, and nothing is missing."""
    written(
        tmp_path, (f"{JOB}.1", b"first\n"), (f"{JOB}.2", b"second\n"), (f"{JOB}.2", b"more\n"), (f"{OTHER}.1", b"x")
    )

    assert attempts(tmp_path, JOB) == [1, 2]
    assert [(piece.missing, piece.data) for piece in read_output(tmp_path, JOB, 2)] == [(0, b"second\nmore\n")]
    assert text_of(tmp_path, JOB, 1) == b"first\n"


def test_a_long_output_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    """What is left is within the limit, and the number of bytes between is exact."""
    lines = [b"line %06d\n" % number for number in range(2000)]
    written(tmp_path, *((f"{JOB}.1", line) for line in lines))

    pieces = list(read_output(tmp_path, JOB, 1))
    whole = b"".join(lines)
    assert size_of(tmp_path) <= LIMIT
    assert pieces[0].data == whole[: LIMIT // 2]
    assert whole.endswith(b"".join(piece.data for piece in pieces[1:]))
    assert sum(piece.missing + len(piece.data) for piece in pieces) == len(whole) == pieces[-1].end
    assert sum(1 for piece in pieces if piece.missing) == 1


def test_one_large_write_is_cut_like_many_small_ones(tmp_path: Path) -> None:
    """A program that prints a megabyte at once gets no more room."""
    text = os.urandom(50_000)
    written(tmp_path, (f"{JOB}.1", text))

    assert size_of(tmp_path) <= LIMIT
    assert text.endswith(list(read_output(tmp_path, JOB, 1))[-1].data)


def test_a_reader_goes_on_where_it_was(tmp_path: Path) -> None:
    """Also across parts: it gets each byte once, and is told what it has missed."""
    written(tmp_path, (f"{JOB}.1", b"a" * 300))
    [piece] = read_output(tmp_path, JOB, 1)
    written(tmp_path, (f"{JOB}.1", b"b" * 300))

    later = list(read_output(tmp_path, JOB, 1, piece.end))

    assert b"".join(piece.data for piece in later) == b"b" * 300
    assert [piece.missing for piece in later] == [0, 0]
    assert list(read_output(tmp_path, JOB, 1, later[-1].end)) == []


def test_all_outputs_together_are_bounded(tmp_path: Path) -> None:
    """The files that were written longest ago go first; small ones count as much as they take on a disk."""
    total, names = 65_536, [f"01JOB{number:03}.1" for number in range(40)]
    for age, name in enumerate(reversed(names)):
        written(tmp_path, (name, b"x" * 100), total=10**9)
        os.utime(next((tmp_path / "jobs").glob(f"*/{name}.log")), (10**9 - age, 10**9 - age))

    written(tmp_path, (f"{JOB}.1", b"new"), total=total)

    left = {path.name for path in (tmp_path / "jobs").glob("*/*.log")}
    assert len(left) == total // 4096
    assert f"{JOB}.1.log" in left
    assert left - {f"{JOB}.1.log"} == {f"{name}.log" for name in names[-15:]}


def test_what_waits_for_the_disk_is_bounded(tmp_path: Path) -> None:
    """Output that comes faster than it is written is dropped, and a line says how much."""

    async def story() -> None:
        files = OutputFiles(LogSettings(folder=str(tmp_path), job_bytes_max=10**8))
        files.write(f"{OTHER}.1", b"first")  # while this is written, the rest waits: the loop gets no turn
        for _ in range(6):
            files.write(f"{JOB}.1", b"x" * (_WAITING_BYTES_MAX // 4))
        await files.flush()
        files.write(f"{JOB}.1", b"end")
        await files.flush()

    asyncio.run(story())

    text = text_of(tmp_path, JOB)
    assert text.count(b"x") == _WAITING_BYTES_MAX
    assert text.endswith(b"x\n--- %d bytes were dropped: the disk was too slow ---\nend" % (_WAITING_BYTES_MAX // 2))


def test_a_disk_that_refuses_loses_output_and_nothing_else(tmp_path: Path) -> None:
    """Whoever writes is not told: a job does not fail for what it prints."""
    (tmp_path / "jobs").write_text("no folder")

    written(tmp_path, (f"{JOB}.1", b"lost"))

    assert attempts(tmp_path, JOB) == []


def split(folder: Path, chunks: list[bytes], *expected: tuple[int, str, int]) -> None:
    """Feed *chunks* to the splitter of a worker of node n1, which gets each *expected* job before that chunk."""

    async def story() -> None:
        splitter = OutputSplitter(OutputFiles(LogSettings(folder=str(folder))), "n1")
        for number, chunk in enumerate(chunks):
            for _, job, attempt in (row for row in expected if row[0] == number):
                splitter.expected = f"{job}.{attempt}"
            splitter.feed(chunk)
        await splitter.flush()

    asyncio.run(story())


@pytest.mark.parametrize("size", [1, 2, 7, 40])
def test_output_is_sorted_by_the_job_that_printed_it(tmp_path: Path, size: int) -> None:
    """Marks may be cut anywhere; what a worker prints between jobs is under the name of its node."""
    first, second = job_mark(JOB, 1), job_mark(OTHER, 2)
    before = b"starting\n" + first + b"one\n" + first
    after = b"between\n" + second + b"two\n" + second + b"bye\n"
    chunks = [text[at : at + size] for text in (before, after) for at in range(0, len(text), size)]

    split(tmp_path, chunks, (0, JOB, 1), (-(-len(before) // size), OTHER, 2))

    assert text_of(tmp_path, JOB, 1) == b"one\n"
    assert text_of(tmp_path, OTHER, 2) == b"two\n"
    assert text_of(tmp_path, worker_name("n1"), 0) == b"starting\nbetween\nbye\n"


def test_a_job_cannot_write_into_the_output_of_another(tmp_path: Path) -> None:
    """A mark of a job that the worker did not get is output like any other, also one that never ends."""
    mark, forged = job_mark(JOB, 1), job_mark("../../../etc/passwd", 1)
    endless = job_mark(JOB, 1)[:-2] + b"x" * 200
    split(tmp_path, [mark + b"a" + forged + job_mark(OTHER, 1) + endless + b"z" + mark], (0, JOB, 1))

    assert text_of(tmp_path, JOB, 1) == b"a" + forged + job_mark(OTHER, 1) + endless + b"z"
    assert attempts(tmp_path, OTHER) == []


def test_the_last_words_of_a_worker_that_dies_belong_to_its_job(tmp_path: Path) -> None:
    """Also if they look like the beginning of a mark."""
    split(tmp_path, [job_mark(JOB, 1) + b"Fatal error\x1eringrift"], (0, JOB, 1))

    assert text_of(tmp_path, JOB, 1) == b"Fatal error\x1eringrift"
