"""A worker whose key was stolen damages its own results and nothing else."""

from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from contract.coordinator_rig import FACTS, Coordinator, RemoteNode, batch, tell
from ringrift import jobs
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.bus.remote_router import Publish
from ringrift.cluster.keys import WORKER
from ringrift.cluster.remote_roster import Beat, BeatAnswer
from ringrift.cluster.roster import NodeRecord
from ringrift.coordinator.serve import VERBS
from ringrift.coordinator.verbs import allows
from ringrift.events.model import Promoted
from ringrift.events.node import KeyChanged, Left, Quarantined, Released
from ringrift.events.work import RunStateChanged
from ringrift.jobs import Play
from ringrift.kernel.errors import RingriftError
from ringrift.kernel.ids import Ids
from ringrift.kernel.wire_errors import Forbidden
from ringrift.store.ports import Renewal
from ringrift.work.desk import Fault
from ringrift.work.remote_desk import (
    Fail,
    FailAnswer,
    GiveBack,
    GivenBack,
    Ingest,
    IngestAnswer,
    IslandBatch,
    Renew,
    Renewed,
)

PLAY = Play(variant="square8_2p", model="a" * 64, games=2, seed=1)
FORGED = (
    Promoted(variant="square8_2p", model="b" * 64, generation=9),
    Quarantined(node="w1", reason="mine"),
    Released(node="w2"),
    Left(node="w1"),
    KeyChanged(node="w1", change="revoked"),
    RunStateChanged(scope="cluster", state="stopped", before="running", reason="", by="w1", until=None),
)


def snapshot(home: Path) -> dict[str, Any]:
    """Everything in the store that is not about w2."""
    db = apsw.Connection(str(next(home.rglob("coordinator.db"))), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        records = {f"{kind} {id}": body for kind, id, body in db.execute("SELECT kind, id, body FROM records")}
        rows = sorted(db.execute("SELECT id, state, holder, fence, renewals, attempts FROM jobs"))
        log = list(db.execute("SELECT name, node FROM log"))
    finally:
        db.close()
    others = {key: body for key, body in records.items() if "w2" not in key}
    return {"records": others, "jobs": rows, "log": [row for row in log if row[1] != "w2"]}


async def attack(node: RemoteNode, lease: Any, envelopes: EnvelopeFactory) -> list[str]:
    """Everything that w2 can say about the job and the name of w1; the errors that it gets."""
    mine = Renewal(job=lease.job, fence=lease.fence)
    record = NodeRecord(id="w1", profile="full", address="/etc", beat=99, facts=FACTS, gone=True, boot="x")
    island = IslandBatch(epoch="e", number=1, body=jobs.encode(PLAY), result=batch("c" * 64))
    calls: list[tuple[str, Any, Any]] = [
        ("renew", Renew(renewals=(mine,)), Renewed),
        ("fail", Fail(faults=(Fault(lease=lease, error="mine", blob=PLAY.model),)), FailAnswer),
        ("give_back", GiveBack(reason="mine", started=True), GivenBack),
        ("ingest", Ingest(batches=(island,)), IngestAnswer),
        ("beat", Beat(record=record), BeatAnswer),
    ]
    calls += [("publish", Publish(envelopes=(envelopes.make(event),)), Any) for event in FORGED]
    errors = []
    await node.finish((lease, batch("c" * 64)))
    for verb, body, answer in calls:
        try:
            await node.call(verb, body, answer)
        except RingriftError as error:
            errors.append(type(error).__name__)
    return errors


def test_a_stolen_key_changes_nothing_of_others(tmp_path: Path) -> None:
    """It knows the lease and the fence of another node and speaks in its name; the store does not change."""

    async def story(coordinator: Coordinator) -> None:
        [job] = await coordinator.enqueue(PLAY)
        victim, thief = await coordinator.node("w1", WORKER), await coordinator.node("w2", WORKER)
        [lease] = await victim.claim()
        before = snapshot(tmp_path)
        parts = coordinator.parts
        errors = await attack(thief, lease, EnvelopeFactory("w1", parts.clock, Ids(parts.clock, parts.rng)))

        assert len(errors) == len(FORGED)
        assert snapshot(tmp_path) == before
        assert (await coordinator.job(job)).holder == "w1"

    tell(tmp_path, story)


@pytest.mark.parametrize("name", sorted(name for name, verb in VERBS.items() if not allows(WORKER, verb.scope)))
def test_a_worker_reads_nothing_and_administers_nothing(name: str, tmp_path: Path) -> None:
    """Tokens, keys, the log, jobs and nodes of others are closed to it."""

    async def story(coordinator: Coordinator) -> None:
        thief = await coordinator.node("w2", WORKER)
        with pytest.raises(Forbidden):
            await thief.connection._deliver(name, msgspec.msgpack.encode({}), 5.0)

    tell(tmp_path, story)
