"""Versions beside each other: what a newer side adds is no error for an older one, and stays where it is stored."""

import json
from pathlib import Path

from contract.coordinator_rig import FACTS, Coordinator, batch, tell
from ringrift.bus.remote_router import Publish, Published
from ringrift.cluster.remote_roster import Beat, BeatAnswer
from ringrift.cluster.roster import NODES, NodeRecord
from ringrift.coordinator.serve import STREAMS, VERBS
from ringrift.events.base import Envelope
from ringrift.jobs import Play
from ringrift.kernel.value import Value
from ringrift.store.ports import Lease, Renewal
from ringrift.work.remote_desk import Claim, Finish, FinishAnswer, FinishedJob

PLAY = Play(variant="hex8_2p", model="a" * 64, seed=1, games=2)
GAMES = b"the games"


class NewerClaim(Claim):
    """A claim of a later version."""

    hurry: int = 7
    wishes: tuple[str, ...] = ("attic",)


class OlderClaimed(Value):
    """What an earlier version knows of the answer to a claim."""

    leases: tuple[Lease, ...] = ()


class NewerJob(FinishedJob):
    """A result of a later version."""

    joules: float = 1.5


class NewerRecord(NodeRecord):
    """The record of a node of a later version."""

    mood: str = "sunny"


def test_a_newer_worker_is_understood_by_an_older_coordinator(tmp_path: Path) -> None:
    """It claims, beats and finishes with fields that the coordinator has never heard of."""

    async def story(coordinator: Coordinator) -> None:
        await coordinator.open_line("hex8_2p")
        [id] = await coordinator.enqueue(PLAY)
        node = await coordinator.node()
        record = NewerRecord(id="w1", profile="full", address="", beat=2, boot="b", facts=FACTS)
        await node.call("beat", Beat(record=record), BeatAnswer)
        answer = await node.call("claim", NewerClaim(kinds=("play",), limit=1), OlderClaimed)
        [lease] = answer.leases
        [blob] = await coordinator.blobs.put([GAMES])
        job = NewerJob(lease=Renewal(job=lease.job, fence=lease.fence), result=batch(blob))

        assert await node.call("finish", Finish(jobs=(job,)), FinishAnswer) == FinishAnswer()
        assert (await coordinator.job(id)).state == "done"
        async with coordinator.store.read() as view:
            assert (await NODES.get(view, "w1") or record).beat == 2

    tell(tmp_path, story)


def test_unknown_fields_of_an_event_are_stored(tmp_path: Path) -> None:
    """An event of a later version lies in the log as it was sent, for those who know it."""

    async def story(coordinator: Coordinator) -> None:
        node = await coordinator.node(scopes=("publish", "read"), beats=False)
        body = json.dumps({"event": "tea", "payload": {"sugar": 1}, "milk": {"fat": 3.5}}).encode()
        envelope = Envelope(id="e1", name="custom.published", body=body, time=0.0, node="w1")
        answer = await node.call("publish", Publish(envelopes=(envelope,)), Published)
        [stored] = await coordinator.log("custom.published")

        assert stored.position == answer.positions[0]
        assert json.loads(stored.body)["milk"] == {"fat": 3.5}

    tell(tmp_path, story)


def test_a_newer_side_may_add_fields_to_everything_that_is_sent() -> None:
    """Every message of the wire is read without what it does not know, and with what it misses."""
    types = [type for verb in VERBS.values() for type in (verb.body, verb.answer)]
    types += [stream.body for stream in STREAMS.values()]
    strict = [type.__name__ for type in types if type.__struct_config__.forbid_unknown_fields]

    assert strict == []
    assert len(types) > 30
