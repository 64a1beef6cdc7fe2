"""What ``data status``, ``where``, ``verify`` and ``sync`` find and say."""

import asyncio
import io
from pathlib import Path

import pytest

from ringrift.blobs.folder import Folder, FolderBlobs
from ringrift.cli.progress import Progress, _describe
from ringrift.cluster.roster import NodeRecord
from ringrift.events.data import Corrupted
from ringrift.events.selfplay import BatchFinished
from ringrift.jobs import Play, Sync
from ringrift.kernel.errors import InputError, UnknownName
from ringrift.kernel.value import changed
from ringrift.pipeline.copies import WAITING
from ringrift.pipeline.line import Batch, Line, Stage
from ringrift.store.follow import wait_for
from ringrift.store.ports import Lease, Origin, Reads, Renewal
from ringrift.sync.failed_copies import FAILED, FailedCopy
from ringrift.sync.receipts import Receipt, record
from ringrift.work.desk import Done, Fault, JobOutcome
from ringrift.work.durations import JobRun
from unit.cli.command_output import ask
from unit.kernel.manual_clock import ManualClock
from unit.pipeline.story import VARIANT, at
from unit.work.world import World, play


async def add_node(world: World, folder: Path, id: str, *datas: bytes, ephemeral: bool = False) -> list[str]:
    """A node with these files in its folder and in the ledger."""
    root = folder / id
    blobs = FolderBlobs(str(root), id)
    await blobs.open(is_new=True)
    names = list(await blobs.put(datas)) if datas else []
    await world.roster.put(NodeRecord(id=id, profile="full", address=str(root), beat=1, pid=1, ephemeral=ephemeral))
    for name in names:
        await world.hold(name, id)
    return names


def needing(*blobs: str) -> Line:
    """A line that needs these batches and nothing else."""
    line = at(Stage.COLLECTING, rounds=0).line
    batches = tuple(Batch(blob=blob, games=1, node="a") for blob in blobs)
    counts = type(line.counts)(batches=len(blobs), games=len(blobs), stored=len(blobs), games_kept=len(blobs))
    return changed(line, champion=None, generation=-1, stage=Stage.STARTING, pending=(), window=batches, counts=counts)


async def claim_sync(world: World) -> Lease:
    """The lease of the one Sync job, as soon as it is there."""

    async def find(view: Reads) -> bool | None:
        return bool(await view.jobs(("ready",), 1)) or None

    await wait_for(world.store, find, world.clock, 10.0)
    [lease] = await world.desk("b").claim({"sync"}, 1)
    return lease


def test_status_shows_every_slot_and_every_single(tmp_path: Path) -> None:
    """Slots by their ends with reasons and cost, files by node, and what has one copy."""

    async def story(world: World) -> None:
        [blob] = await add_node(world, tmp_path, "a", b"games")
        await add_node(world, tmp_path, "b")
        await world.keep(needing(blob))
        jobs = [Play(variant=VARIANT, model="m", games=100, seed=seed) for seed in (1, 2, 3)]
        done, broken, _ = await world.claim(*jobs)
        event = BatchFinished(variant=VARIANT, batch=blob, games=90, node="here", model="m")
        run = JobRun(kind="play", variant=VARIANT, seconds=200.0, size=100)
        lease = Renewal(job=done.job, fence=done.fence)
        await world.desk().finish([Done(lease=lease, outcome=JobOutcome(events=(event,)), run=run)])
        await world.desk().fail([Fault(lease=broken, error="x", retry=False)])

        output = await ask(world.store, "data", "status", clock=world.clock)

        assert output.code == 0
        assert "3 (300)    0        1        1 (90)    0         1 (100)  0             all" in output.text
        assert "lost: 1 (100): refused, at most 3 min 20 s of play" in output.text
        assert "1 file with fewer than two durable copies:" in output.text
        assert f"{blob[:10]}  games  {VARIANT}  a   can be made now:  ringrift data sync" in output.text

        async with world.store.begin() as tx:
            await tx.cancel([row.id for row in await tx.jobs(("claimed",), 1)])
        output = await ask(world.store, "data", "status", clock=world.clock)
        assert output.code == 1
        assert "NO: given up: 1 slots, 2 jobs" in output.text

    play(tmp_path, story)


def test_status_tells_why_copies_are_not_made(tmp_path: Path) -> None:
    """Those that wait by their rule, and those that failed with their error and how often."""

    async def story(world: World) -> None:
        failure = FailedCopy(blob="ab" * 32, target="b", kind="games", variant=VARIANT, error="the disk is full")
        async with world.store.begin() as tx:
            await FAILED.put(tx, [changed(failure, failures=5, given_up=True)])
            await WAITING.put_at(tx, {"last": {"no durable node has room": (3, "cd" * 32)}})

        output = await ask(world.store, "data", "status", clock=world.clock)

        assert "3 files waiting for a copy (cdcdcdcdcd): no durable node has room" in output.text
        assert "not copied to b: ababababab, 5 failures, given up: the disk is full" in output.text

    play(tmp_path, story)


def test_status_of_an_empty_store(tmp_path: Path) -> None:
    """Nothing is wrong with nothing."""

    async def story(world: World) -> None:
        output = await ask(world.store, "data", "status", clock=world.clock)

        assert output.code == 0
        assert "none was asked for yet" in output.text
        assert "every file that a line needs is on two durable nodes" in output.text

    play(tmp_path, story)


def test_where_names_holders_receipts_and_origin(tmp_path: Path) -> None:
    """The beginning of a hash is enough; a copy has its receipt, and what has no copy says why."""

    async def story(world: World) -> None:
        [blob] = await add_node(world, tmp_path, "a", b"games")
        await add_node(world, tmp_path, "spot", ephemeral=True)
        await world.hold(blob, "spot")
        async with world.store.begin() as tx:
            origin = Origin(blob=blob, node="a", kind="games", variant=VARIANT, games=7, time=1.0, job="j1")
            await tx.put_origins([origin, changed(origin, blob="f" * 64)])
            receipt = Receipt(blob=blob, node="spot", source="a", transport="http", size=5, seconds=1.0, time=1.0)
            await record(tx, receipt)

        output = await ask(world.store, "data", "where", blob[:8], clock=world.clock)
        gone = await ask(world.store, "data", "where", "ffff", clock=world.clock)

        assert (output.code, gone.code) == (0, 1)
        assert "games of hex8_2p, 7 games: made by a" in output.text
        assert "spot  alive  may vanish  from a by http" in output.text
        assert "a     alive  durable     made there" in output.text
        assert "gone: no node has it" in gone.text
        with pytest.raises(UnknownName):
            await ask(world.store, "data", "where", "0000", clock=world.clock)
        for text in ("f", "zzzz", "../..", ""):
            with pytest.raises(InputError):
                await ask(world.store, "data", "where", text, clock=world.clock)

    play(tmp_path, story)


def test_where_refuses_an_ambiguous_beginning(tmp_path: Path) -> None:
    """It lists what it could mean."""

    async def story(world: World) -> None:
        await world.hold("abcd" + "0" * 60, "a")
        await world.hold("abcd" + "1" * 60, "a")
        await world.hold("abce" + "1" * 60, "a")

        with pytest.raises(InputError, match=r"abcd000.*abcd111"):
            await ask(world.store, "data", "where", "abcd", clock=world.clock)
        assert (await ask(world.store, "data", "where", "abce", clock=world.clock)).value["blob"] == "abce" + "1" * 60

    play(tmp_path, story)


def test_verify_finds_what_is_corrupt_missing_and_unlisted(tmp_path: Path) -> None:
    """A corrupt file is set aside and listed no more; a disk that is away is no loss."""

    async def story(world: World) -> None:
        bad, gone, good = await add_node(world, tmp_path, "a", b"bad", b"gone", b"good")
        [extra] = await FolderBlobs(str(tmp_path / "a"), "a").put([b"extra"])
        await add_node(world, tmp_path, "b")
        (tmp_path / "b").rename(tmp_path / "unmounted")
        folder = Folder(tmp_path / "a", "a")
        folder.path(bad).chmod(0o644)
        folder.path(bad).write_bytes(b"BAD")
        folder.path(gone).unlink()

        output = await ask(world.store, "data", "verify", clock=world.clock)

        [first, second] = output.value["nodes"]
        assert (first.corrupt, first.missing, first.unlisted) == ((bad,), (gone,), (extra,))
        assert second.away
        assert (first.files, output.code, output.value["clean"]) == (3, 1, False)
        assert await world.holders(bad) == []
        assert await world.holders(good) == ["a"]
        assert await world.events(Corrupted) == [Corrupted(blob=bad, node="a")]

    play(tmp_path, story)


def test_verify_is_clean_where_nothing_is_wrong(tmp_path: Path) -> None:
    """Then it says so; a file that a line needs and nobody holds is something wrong."""

    async def story(world: World) -> None:
        [blob] = await add_node(world, tmp_path, "a", b"games")
        await world.keep(needing(blob))
        output = await ask(world.store, "data", "verify", "a", clock=world.clock)
        assert (output.code, output.value["clean"]) == (0, True)
        assert "every file matches its name" in output.text

        await world.keep(needing(blob, "e" * 64))
        output = await ask(world.store, "data", "verify", "a", clock=world.clock)
        assert (output.code, output.value["lost"]) == (1, ["e" * 64])
        with pytest.raises(UnknownName):
            await ask(world.store, "data", "verify", "nobody", clock=world.clock)

    play(tmp_path, story)


def test_sync_asks_for_second_copies_and_waits_for_them(tmp_path: Path) -> None:
    """One job for each single, from a node that has it; it ends when they are done."""

    async def story(world: World) -> None:
        [blob] = await add_node(world, tmp_path, "a", b"games")
        await add_node(world, tmp_path, "b")
        await world.keep(needing(blob))
        dry = await ask(world.store, "data", "sync", "--dry-run", clock=world.clock)
        assert "1 copy would be made" in dry.text
        assert await world.jobs() == []

        asking = asyncio.create_task(ask(world.store, "data", "sync", clock=world.clock))
        lease = await claim_sync(world)
        job = Sync(variant=VARIANT, blob=blob, kind_of="games", source="a", repair=True)
        assert lease.key == job.key
        await world.hold(blob, "b")
        await world.desk("b").finish([Done(lease=Renewal(job=lease.job, fence=lease.fence))])
        output = await asking

        assert (output.code, output.value.copied) == (0, (blob,))
        again = await ask(world.store, "data", "sync", clock=world.clock)
        assert again.text == "nothing to do: every file that a line needs is on two durable nodes"

    play(tmp_path, story)


def test_sync_reports_a_copy_that_could_not_be_made(tmp_path: Path) -> None:
    """The error of the job is the answer, and the exit code is that of a failure."""

    async def story(world: World) -> None:
        [blob] = await add_node(world, tmp_path, "a", b"games")
        await add_node(world, tmp_path, "b")
        await world.keep(needing(blob))
        asking = asyncio.create_task(ask(world.store, "data", "sync", clock=world.clock))
        await world.desk("b").fail([Fault(lease=await claim_sync(world), error="the disk is full", retry=False)])
        output = await asking

        assert (output.code, output.value.failed) == (1, {blob: "the disk is full"})

    play(tmp_path, story)


def test_progress_has_rate_and_remaining_time() -> None:
    """Bytes by default, or things; a rate only once there is something to measure."""
    assert _describe("verify a", 0, 100, 0.1) == "verify a: ········   0% · 0 B of 100 B"
    assert _describe("verify a", 25, 100, 5.0) == "verify a: ██······  25% · 25 B of 100 B · 5 B/s · 15 s left"
    assert (
        _describe("copies", 2, 2, 4.0, unit="files")
        == "copies: ████████ 100% · 2 files of 2 files · 0.5 files/s · in 4 s"
    )
    assert _describe("nothing", 0, 0, 0.0).startswith("nothing: ████████ 100%")


class Terminal(io.StringIO):
    """A stream that can be redrawn."""

    def isatty(self) -> bool:
        return True


def test_progress_redraws_on_a_terminal_and_prints_lines_where_it_is_piped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe gets a line every ten seconds and one at the end; a terminal one line that changes."""
    monkeypatch.setenv("TERM", "xterm")
    clock, pipe, terminal = ManualClock(), io.StringIO(), Terminal()
    bars = [Progress("x", 100, clock, out=out) for out in (pipe, terminal)]
    for _ in range(25):
        clock.seconds += 1.0
        for bar in bars:
            bar.add(4)
    for bar in bars:
        bar.end()

    assert [line.split(" · ")[1] for line in pipe.getvalue().splitlines()] == [
        "40 B of 100 B",
        "80 B of 100 B",
        "100 B of 100 B",
    ]
    assert "\r" not in pipe.getvalue()
    assert (terminal.getvalue().count("\r"), terminal.getvalue().count("\n")) == (26, 1)
