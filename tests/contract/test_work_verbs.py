"""The verbs of a desk: a remote node claims what its key allows, and its results count once and as its own."""

import hashlib
from pathlib import Path

import msgspec
import pytest

from contract.coordinator_rig import Coordinator, batch, tell
from ringrift.events import catalog
from ringrift.events.selfplay import BatchFinished
from ringrift.events.work import Buried
from ringrift.jobs import Play, Sync, Train
from ringrift.kernel.errors import InputError
from ringrift.kernel.ids import ID_CHARACTERS
from ringrift.kernel.value import changed
from ringrift.kernel.wire_errors import Forbidden
from ringrift.store.ports import Origin, Renewal
from ringrift.sync import ledger
from ringrift.work.checkpoints import CHECKPOINTS, Checkpoint
from ringrift.work.desk import Fault
from ringrift.work.remote_desk import Fail, FailAnswer, GiveBack, GivenBack, Renew, Renewed
from ringrift.workload.api import Artifact, JobResult

DATA = b"two games"
BLOB = hashlib.sha256(DATA).hexdigest()
MODEL = "ab" * 32


def play(seed: int = 0, variant: str = "v") -> Play:
    """A batch of games to play."""
    return Play(variant=variant, model=MODEL, games=2, seed=seed)


def test_a_worker_claims_what_its_scopes_allow(tmp_path: Path) -> None:
    """A key for games gets no training, whatever it asks for, and no key gets the jobs of a node."""

    async def story(c: Coordinator) -> None:
        sync = Sync(variant="v", blob=BLOB, kind_of="games", source="c")
        await c.enqueue(play(), Train(variant="v", generation=1), sync)
        player, trainer = await c.node("p", ("play",)), await c.node("t", ("train",))

        assert [lease.kind for lease in await player.claim("play", "train", "sync")] == ["play"]
        assert [lease.kind for lease in await trainer.claim("play", "train", "sync")] == ["train"]

    tell(tmp_path, story)


def test_a_key_without_work_claims_nothing(tmp_path: Path) -> None:
    """A program that may only read is refused."""

    async def story(c: Coordinator) -> None:
        reader = await c.node("r", ("read", "publish"), beats=False)

        with pytest.raises(Forbidden):
            await reader.claim("play")

    tell(tmp_path, story)


def test_a_result_is_concluded_by_the_coordinator(tmp_path: Path) -> None:
    """The event names the node, the ledger the coordinator, which has the file."""

    async def story(c: Coordinator) -> None:
        [job] = await c.enqueue(play())
        node = await c.node()
        [lease] = await node.claim()
        await node.upload(BLOB, DATA)

        answer = await node.finish((lease, batch(BLOB)))

        assert not answer.lost
        assert not answer.refused
        assert (await c.job(job)).state == "done"
        [envelope] = await c.log(BatchFinished.name())
        event = catalog.decode(envelope.name, envelope.body)
        assert isinstance(event, BatchFinished)
        assert (event.node, event.batch, event.ephemeral, envelope.node) == ("w1", BLOB, False, "w1")
        async with c.store.read() as view:
            assert await ledger.holders(view, BLOB) == ["c"]
            assert [origin.node for origin in await view.origins([BLOB])] == ["w1"]

    tell(tmp_path, story)


def test_a_result_without_its_file_is_refused_and_still_leased(tmp_path: Path) -> None:
    """The acknowledgement waits for the copy: nothing counts that only a worker has."""

    async def story(c: Coordinator) -> None:
        [job] = await c.enqueue(play())
        node = await c.node()
        [lease] = await node.claim()

        answer = await node.finish((lease, batch(BLOB)))

        assert "was not uploaded" in answer.refused[job].reason
        assert (await c.job(job)).state == "claimed"
        assert not await c.log(BatchFinished.name())

    tell(tmp_path, story)


def test_the_same_result_again_is_a_success_and_counts_once(tmp_path: Path) -> None:
    """A worker whose answer was lost asks again, perhaps a coordinator that knows no session any more."""

    async def story(c: Coordinator) -> None:
        await c.enqueue(play())
        node = await c.node()
        [lease] = await node.claim()
        await node.upload(BLOB, DATA)
        await node.finish((lease, batch(BLOB)))

        again = await node.finish((lease, batch(BLOB)))

        assert not again.lost
        assert len(await c.log(BatchFinished.name())) == 1

    tell(tmp_path, story)


def test_only_the_holder_ends_a_lease(tmp_path: Path) -> None:
    """Another node that knows job and fence neither finishes nor renews nor fails it."""

    async def story(c: Coordinator) -> None:
        [job] = await c.enqueue(play())
        node, thief = await c.node(), await c.node("w2")
        [lease] = await node.claim()
        await thief.upload(BLOB, DATA)
        mine = Renewal(job=lease.job, fence=lease.fence)

        assert (await thief.finish((lease, batch(BLOB)))).lost == (job,)
        assert (await thief.call("renew", Renew(renewals=(mine,)), Renewed)).lost == (job,)
        fault = Fault(lease=lease, error="no")
        assert not (await thief.call("fail", Fail(faults=(fault,)), FailAnswer)).again
        assert not (await thief.call("give_back", GiveBack(reason="leaves", started=True), GivenBack)).jobs
        row = await c.job(job)
        assert (row.state, row.holder, row.renewals) == ("claimed", "w1", 0)

    tell(tmp_path, story)


def test_a_result_behind_its_fence_is_lost(tmp_path: Path) -> None:
    """Once the job has passed on, the first holder's result is not the job's, even if the same node holds it again."""

    async def story(c: Coordinator) -> None:
        [job] = await c.enqueue(play())
        node = await c.node()
        [old] = await node.claim()
        await node.call("give_back", GiveBack(reason="restart", started=False), GivenBack)
        [new] = await node.claim()
        await node.upload(BLOB, DATA)

        assert new.fence > old.fence
        assert (await node.finish((old, batch(BLOB)))).lost == (job,)
        assert (await c.job(job)).state == "claimed"
        assert not (await node.finish((new, batch(BLOB)))).lost

    tell(tmp_path, story)


def test_one_bad_result_does_not_keep_the_others(tmp_path: Path) -> None:
    """Of a batch, what cannot be counted is refused alone."""

    async def story(c: Coordinator) -> None:
        good, bad = await c.enqueue(play(1), play(2))
        node = await c.node()
        leases = {lease.job: lease for lease in await node.claim()}
        await node.upload(BLOB, DATA)
        strange = JobResult(outputs=(Artifact(blob=BLOB, kind="games", size=9, meta={"games": float("nan")}),))

        answer = await node.finish((leases[bad], strange), (leases[good], batch(BLOB)))

        assert list(answer.refused) == [bad]
        assert (await c.job(good)).state == "done"
        assert (await c.job(bad)).state == "claimed"

    tell(tmp_path, story)


def test_a_renewal_says_no_more_than_a_worker_may(tmp_path: Path) -> None:
    """Neither the length of a lease nor a file that is not here, nor one that is something else already."""

    async def story(c: Coordinator) -> None:
        [job] = await c.enqueue(Train(variant="v", generation=1))
        [champion, own] = await c.blobs.put([b"champion", b"checkpoint"])
        async with c.store.begin() as tx:
            await tx.put_origins([Origin(blob=champion, node="c", kind="model", variant="v")])
        node = await c.node()
        [lease] = await node.claim("train")
        rows = [Checkpoint(blob=blob, node="w1") for blob in (champion, own, "cd" * 32, "../../etc/passwd")]
        renewal = Renewal(job=job, fence=lease.fence, progress=7.0, outputs=msgspec.json.encode(rows), seconds=86_400.0)

        assert not (await node.call("renew", Renew(renewals=(renewal,)), Renewed)).lost

        row = await c.job(job)
        assert (row.seconds, row.progress, row.renewals) == (lease.seconds, 1.0, 1)
        async with c.store.read() as view:
            assert await CHECKPOINTS.scan(view) == {own: job}

    tell(tmp_path, story)


def test_a_fault_blames_only_an_input_of_its_job(tmp_path: Path) -> None:
    """A worker cannot blame a file of another job, nor give a cause that nobody knows."""

    async def story(c: Coordinator) -> None:
        [job] = await c.enqueue(play())
        node = await c.node()
        [lease] = await node.claim()
        fault = Fault(lease=lease, error="bad", blob=BLOB, cause="sabotage", retry=False)

        answer = await node.call("fail", Fail(faults=(fault,)), FailAnswer)

        assert answer.again == {job: False}  # there is no other node
        [envelope] = await c.log(Buried.name())
        event = catalog.decode(envelope.name, envelope.body)
        assert isinstance(event, Buried)
        assert (event.blob, event.cause) == (None, "refused")

    tell(tmp_path, story)


def test_what_one_remote_node_refuses_another_tries(tmp_path: Path) -> None:
    """A worker that says "never again" does not end a job alone while another node could do it."""

    async def story(c: Coordinator) -> None:
        [job] = await c.enqueue(play())
        node, other = await c.node(), await c.node("w2")
        [lease] = await node.claim()

        answer = await node.call("fail", Fail(faults=(Fault(lease=lease, error="never", retry=False),)), FailAnswer)

        assert answer.again == {job: True}
        assert (await c.job(job)).state == "ready"
        assert other.id == "w2"

    tell(tmp_path, story)


def test_the_beginning_of_an_id_is_not_searched_for(tmp_path: Path) -> None:
    """A worker names its jobs in full: looking through all that ever were would take the coordinator's time."""

    async def story(c: Coordinator) -> None:
        await c.enqueue(play())
        node = await c.node()
        [lease] = await node.claim()
        await node.upload(BLOB, DATA)
        await node.finish((lease, batch(BLOB)))
        part = changed(lease, job=lease.job[:4])

        assert len(lease.job) == ID_CHARACTERS
        assert (await node.finish((part, batch(BLOB)))).lost == (part.job,)

    tell(tmp_path, story)


def test_one_request_carries_so_many_jobs(tmp_path: Path) -> None:
    """More are refused before anything is looked up."""

    async def story(c: Coordinator) -> None:
        node, lease = await c.node(), Renewal(job="j", fence=1)
        assert len((await node.call("renew", Renew(renewals=(lease,) * 256), Renewed)).lost) == 256
        with pytest.raises(InputError, match="at most 256"):
            await node.call("renew", Renew(renewals=(lease,) * 257), Renewed)

    tell(tmp_path, story)
