"""Games that were played without a lease come in once, as their own job; games that came in before count once."""

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import pytest

from contract.coordinator_rig import Coordinator, RemoteNode, batch, tell
from ringrift import jobs
from ringrift.events.selfplay import BatchFinished
from ringrift.events.work import Cancelled
from ringrift.jobs import Play
from ringrift.kernel.value import changed
from ringrift.kernel.verdict import Verdict
from ringrift.kernel.wire_errors import Forbidden
from ringrift.pipeline.models import MODELS, Model, State
from ringrift.sync import ledger
from ringrift.work.game_ledger import ACCOUNTS, find_imbalances
from ringrift.work.limits import QUARANTINES
from ringrift.work.remote_desk import GiveBack, GivenBack, Ingest, IngestAnswer, IslandBatch

DATA = b"games of an island"
BLOB = hashlib.sha256(DATA).hexdigest()
MODEL = "ab" * 32
PLAY = Play(variant="v", model=MODEL, games=2, seed=5)
BATCH = IslandBatch(epoch="e1", number=1, body=jobs.encode(PLAY), result=batch(BLOB))


async def prepare(c: Coordinator, id: str = "w1") -> RemoteNode:
    """A node that has played with a known model and brought the file."""
    async with c.store.begin() as tx:
        await MODELS.put(tx, [Model(variant="v", model=MODEL, generation=1, state=State.CHAMPION, since=1.0)])
    node = await c.node(id)
    assert (await node.upload(BLOB, DATA)).done
    return node


async def ingest(node: RemoteNode, *batches: IslandBatch) -> dict[str, str]:
    """Offer *batches*; why some are refused."""
    refused: dict[str, str] = (await node.call("ingest", Ingest(batches=batches), IngestAnswer)).refused
    return refused


async def counted(c: Coordinator) -> list[str]:
    """The nodes of the batches that were announced."""
    return [envelope.node for envelope in await c.log(BatchFinished.name())]


def test_a_batch_is_enqueued_and_finished_at_once(tmp_path: Path) -> None:
    """It is a job of its own, done, with its event, its origin and its copy at the coordinator."""

    async def story(c: Coordinator) -> None:
        node = await prepare(c)

        assert await ingest(node, BATCH) == {}

        assert await counted(c) == ["w1"]
        async with c.store.read() as view:
            [row] = await view.jobs(("done",), 9)
            assert (row.key, row.kind) == ("island:w1:e1:1", "play")
            assert await ledger.holders(view, BLOB) == ["c"]
            [origin] = await view.origins([BLOB])
            assert (origin.node, origin.job) == ("w1", row.id)

    tell(tmp_path, story)


def test_the_same_batch_again_is_no_second_one(tmp_path: Path) -> None:
    """By its key, and by its file under whatever key; a node that returns may offer all it has."""

    async def story(c: Coordinator) -> None:
        node = await prepare(c)
        for number in (1, 1, 2):
            assert await ingest(node, changed(BATCH, number=number)) == {}
        assert await ingest(await c.node("w2"), BATCH) == {}

        assert await counted(c) == ["w1"]
        async with c.store.read() as view:
            assert len(await view.jobs(("done",), 9)) == 1

    tell(tmp_path, story)


def test_the_same_batch_of_five_hosts_counts_once(tmp_path: Path) -> None:
    """Whichever comes first counts; the others are told that theirs is settled, and the account of games agrees."""

    async def story(c: Coordinator) -> None:
        nodes = [await prepare(c, f"w{number}") for number in range(1, 6)]

        assert await asyncio.gather(*(ingest(node, BATCH) for node in nodes)) == [{}] * 5

        assert len(await counted(c)) == 1
        async with c.store.read() as view:
            account = await ACCOUNTS.get(view, "v")
            assert await find_imbalances(view) == {}
        assert account is not None
        assert (account.ingested.slots, account.islands.slots) == (1, 1)

    tell(tmp_path, story)


def test_games_of_a_lost_lease_count_once_whichever_way_comes_first(tmp_path: Path) -> None:
    """The job goes on for another node; its result, the very same games, ends it and is not counted again."""

    async def story(c: Coordinator) -> None:
        [job] = await c.enqueue(PLAY)
        node, other = await prepare(c), await c.node("w2")
        [lost] = await node.claim()
        await node.call("give_back", GiveBack(reason="cut off", started=False), GivenBack)
        [lease] = await other.claim()
        assert (await node.finish((lost, batch(BLOB)))).lost == (job,)

        assert await ingest(node, BATCH) == {}
        assert (await c.job(job)).state == "claimed"
        assert not (await other.finish((lease, batch(BLOB)))).lost

        assert await counted(c) == ["w1"]
        assert (await c.job(job)).state == "done"
        assert [envelope.node for envelope in await c.log(Cancelled.name())] == ["w2"]  # so that play goes on

    tell(tmp_path, story)


def test_one_file_for_two_jobs_counts_once(tmp_path: Path) -> None:
    """A worker that returns the same games again and again does not make more of them."""

    async def story(c: Coordinator) -> None:
        await c.enqueue(PLAY, changed(PLAY, seed=6), changed(PLAY, seed=7))
        node = await prepare(c)
        one, two, three = await node.claim()

        await node.finish((one, batch(BLOB)), (two, batch(BLOB)))
        await node.finish((three, batch(BLOB)))

        assert await counted(c) == ["w1"]

    tell(tmp_path, story)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"body": jobs.encode(changed(PLAY, model="cd" * 32))}, "is no model of v"),
        ({"body": jobs.encode(changed(PLAY, variant="other"))}, "is no model of other"),
        ({"body": b"{"}, ""),
        ({"result": batch("cd" * 32)}, "was not uploaded"),
        ({"result": batch("../../secret")}, "was not uploaded"),
        ({"result": batch(BLOB, games=-1)}, "a whole number above 0"),
        ({"epoch": "e" * 500}, "epoch"),
        ({"number": -1}, "number"),
    ],
)
def test_what_cannot_be_counted_is_refused_alone(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    """The others of the same request count."""

    async def story(c: Coordinator) -> None:
        node = await prepare(c)
        bad = changed(BATCH, **{"number": 2} | changes)

        refused = await ingest(node, bad, BATCH)

        assert list(refused) == [f"{bad.epoch}:{bad.number}"]
        assert reason in refused[f"{bad.epoch}:{bad.number}"]
        assert await counted(c) == ["w1"]

    tell(tmp_path, story)


def test_a_node_in_quarantine_brings_nothing_in(tmp_path: Path) -> None:
    """Its games are in doubt, with or without a lease."""

    async def story(c: Coordinator) -> None:
        node = await prepare(c)
        async with c.store.begin() as tx:
            verdict = Verdict(gate="quarantine", allowed=False, rule="its canaries differ", value=1, limit=0, since=1.0)
            await QUARANTINES.put_at(tx, {"w1": verdict})

        assert "in quarantine: its canaries differ" in (await ingest(node, BATCH))["e1:1"]
        assert not await counted(c)

    tell(tmp_path, story)


def test_only_who_may_play_brings_games(tmp_path: Path) -> None:
    """A key for training is refused."""

    async def story(c: Coordinator) -> None:
        with pytest.raises(Forbidden):
            await ingest(await c.node("t", ("train",)), BATCH)

    tell(tmp_path, story)
