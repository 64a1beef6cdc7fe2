"""The documented work queue: the jobs that nodes claim, each with one holder, and results that count once."""

from pathlib import Path

import pytest

from compat.cluster_scene import open_line, present
from compat.subscribers import QUICK, home
from ringrift.events import catalog
from ringrift.events.selfplay import BatchFinished
from ringrift.kernel.errors import InputError, InvalidPayload, JobFailed, UnknownName
from ringrift.work.desk import StoreDesk
from ringrift_compat.cluster.work_queue import WorkItem, WorkQueue
from ringrift_compat.embedded_node import embedded
from unit.pipeline.story import VARIANT, blob

__all__ = ["home"]
QUEUE = WorkQueue()


@pytest.fixture(autouse=True)
def fake(home: Path) -> None:
    """The quick stand-in plays."""
    (home / "ringrift.toml").write_text(QUICK + '\n[work]\nworkload = "fake"\n[policy]\ngames_per_batch = 4\n')


def claim_one(name: str = "") -> WorkItem:
    """Claim the next batch."""
    [item] = QUEUE.claim_work(name, ["selfplay"])
    return item


def batches() -> list[BatchFinished]:
    """Every batch that was published."""
    rows = embedded.query(lambda view: view.read(0, 100, [BatchFinished.name()]))
    return [event for row in rows if isinstance(event := catalog.decode(row.name, row.body), BatchFinished)]


def test_work_is_claimed_by_one_and_its_result_counts_once(tmp_path: Path) -> None:
    """A batch of the champion is added, claimed, renewed and completed; its file is kept and its event published."""
    line, games = open_line(), tmp_path / "games.bin"
    games.write_bytes(b"four games")
    id = QUEUE.add_work("selfplay", VARIANT)
    waiting = QUEUE.get_work(id)
    assert waiting is not None
    assert (waiting.status, waiting.data["model"], waiting.data["games"]) == ("pending", line.champion, 4)

    mine = claim_one("mine")
    assert (mine.work_id, mine.node_id, mine.status) == (id, "mine", "running")
    assert mine.lease_seconds > 0
    assert QUEUE.claim_work("other", ["selfplay"]) == []
    assert QUEUE.renew_work(id, progress=0.5)
    done = QUEUE.get_work(id)
    assert done is not None
    assert done.progress == 0.5
    with pytest.raises(JobFailed, match="kind games"):
        QUEUE.complete_work(id, {"metrics": {"games": 4.0}})
    assert QUEUE.complete_work(id, {"outputs": [{"kind": "games", "path": str(games), "meta": {"games": 4}}]})

    [batch] = batches()
    assert (batch.node, batch.games, batch.model) == ("mine", 4, line.champion)
    assert QUEUE.get_stats() == {"pending": 0, "running": 0, "completed": 1, "failed": 0, "cancelled": 0}
    with pytest.raises(UnknownName):
        QUEUE.complete_work(id, {})


def test_a_claim_that_was_lost_ends_nothing(tmp_path: Path) -> None:
    """After the lease was taken back and given to another, renewal, result and failure are refused."""
    open_line()
    games = tmp_path / "games.bin"
    games.write_bytes(b"games")
    node = embedded.node()
    desk = StoreDesk(node.store, node.clock, node.envelopes, node.settings.work)

    async def revoke(holder: str) -> None:
        async with node.store.begin() as tx:
            await desk.revoke(tx, await tx.jobs(("claimed",), 9, holder=holder), "silent", started=False)

    id = QUEUE.add_work("selfplay", VARIANT)
    claim_one("first")
    embedded.call(revoke("first"))
    assert claim_one("second").work_id == id
    QUEUE.cancel_work(id)

    assert not QUEUE.renew_work(id)
    assert not QUEUE.complete_work(id, {"outputs": [{"kind": "games", "path": str(games), "meta": {"games": 4}}]})
    assert batches() == []
    assert not QUEUE.cancel_work(id)
    item = QUEUE.get_work(id)
    assert item is not None
    assert item.status == "cancelled"


def test_a_failure_is_tried_again_or_not() -> None:
    """With retry it waits; without, it is given up, with its error."""
    open_line()
    first, second = (QUEUE.add_work("selfplay", VARIANT) for _ in range(2))
    for item in QUEUE.claim_work("mine", limit=2):
        assert QUEUE.fail_work(item.work_id, "no luck", retry=item.work_id == first)

    items = [QUEUE.get_work(id) for id in (first, second)]

    assert [(item.status, item.error) for item in items if item] == [("pending", "no luck"), ("failed", "no luck")]


def test_other_work_needs_the_fields_of_its_job() -> None:
    """They are checked; the same work is not added twice; an unknown type is an error, and so is a node's own name."""
    open_line()
    present("n7")
    fields = {"candidate": blob("c"), "champion": blob("m"), "first": 0, "count": 2}

    id = QUEUE.add_work("evaluation", VARIANT, priority=70, **fields)

    assert QUEUE.add_work("match", VARIANT, **fields) == id
    item = QUEUE.get_work(id)
    assert item is not None
    assert (item.work_type, item.priority, item.data["count"]) == ("match", 70, 2)
    with pytest.raises(InvalidPayload):
        QUEUE.add_work("evaluation", VARIANT, **{**fields, "count": "many"})
    with pytest.raises(UnknownName):
        QUEUE.add_work("dancing", VARIANT)
    with pytest.raises(InputError, match="n7 claims work itself"):
        QUEUE.claim_work("n7")
    assert QUEUE.get_work("nothing") is None
