"""Claims on a real store: no brake is overlooked, slots exclude both ways, and refusals are written only on change."""

import pytest

from contract.engines import Engine
from contract.office import Office, play, train
from ringrift.kernel.verdict import Verdict
from ringrift.store.ports import Renewal, Store
from ringrift.store.sqlite.engine import SqliteStore
from ringrift.work.desk import Done
from ringrift.work.limits import QUARANTINES


@pytest.mark.parametrize("state", ["paused", "draining", "stopped", "emergency"])
@pytest.mark.parametrize(
    ("scope", "rest"),
    [
        ("cluster", []),
        ("node:n", []),
        ("variant:v", ["play:w:0", "train:w:0"]),
        ("stage:train", ["play:v:0", "play:w:0"]),
        ("node:m", ["play:v:0", "train:v:0", "play:w:0", "train:w:0"]),
    ],
)
def test_no_work_starts_in_a_stopped_scope(engine: Engine, scope: str, state: str, rest: list[str]) -> None:
    """Jobs outside it are claimed; when it runs again, so are the others."""

    async def story(store: Store) -> None:
        office = Office(store)
        await office.enqueue(play(), train(), play("w"), train("w"))
        await office.set(scope, state)
        claimed = await office.claim()
        assert claimed == rest
        await office.set(scope, "running")
        assert sorted(claimed + await office.claim()) == ["play:v:0", "play:w:0", "train:v:0", "train:w:0"]
        assert await office.verdicts("v") == await office.verdicts("w") == {}

    engine.run(story)


def test_a_state_ends_with_its_time(engine: Engine) -> None:
    """A pause for an hour refuses claims for an hour, though nothing removes it."""

    async def story(store: Store) -> None:
        office = Office(store)
        await office.enqueue(play())
        await office.set("cluster", "paused", until=office.clock.now() + 3600)
        office.clock.seconds += 3599.0
        assert await office.claim() == []
        office.clock.seconds += 1.0
        assert await office.claim() == ["play:v:0"]

    engine.run(story)


def test_a_training_takes_the_slot_of_its_variant(engine: Engine) -> None:
    """While it is claimed, no other node trains this variant; the end of the job frees the slot."""

    async def story(store: Store) -> None:
        office = Office(store)
        await office.enqueue(train(), train(seed=1), train("w"))
        leases = await office.desk().claim({"train"}, 9)
        assert [lease.key for lease in leases] == ["train:v:0", "train:w:0"]
        assert await office.claim("m") == []
        assert await office.verdicts() == {"claim.train": "training slot of v"}
        await office.desk().finish([Done(lease=Renewal(job=leases[0].job, fence=leases[0].fence))])
        assert await office.claim("m") == ["train:v:1"]
        assert "claim.train" not in await office.verdicts()

    engine.run(story)


def test_a_quarantined_node_gets_no_games(engine: Engine) -> None:
    """It does the rest, and the refusal is stored."""

    async def story(store: Store) -> None:
        office = Office(store)
        await office.enqueue(play(), train())
        async with store.begin() as tx:
            bad = Verdict(gate="trust", allowed=False, rule="canaries", value=1, limit=0)
            await QUARANTINES.put_at(tx, {"n": bad})
        assert await office.claim() == ["train:v:0"]
        assert await office.verdicts() == {"claim.play": "node n is in quarantine: canaries"}
        assert await office.claim("m") == ["play:v:0"]

    engine.run(story)


def test_refusals_are_written_only_when_they_change(engine: Engine) -> None:
    """An idle queue in a pause writes nothing; a new reason replaces the old one; an open gate deletes it."""

    async def story(store: Store) -> None:
        office = Office(store)

        async def stored() -> dict[str, bytes]:
            async with store.read() as view:
                return dict(await view.scan("verdict", "", 100))

        await office.set("cluster", "paused", reason="lunch")
        await office.claim()
        assert await stored() == {}  # nothing is ready
        await office.enqueue(play())
        await office.claim()
        first = await stored()
        office.clock.seconds += 5.0
        assert isinstance(store, SqliteStore)
        changes = store._db.total_changes()
        for _ in range(3):
            assert await office.claim() == []
        assert store._db.total_changes() == changes
        assert list(first) == ["v:claim.play:n"]
        assert await stored() == first
        await office.set("cluster", "stopped")
        await office.claim()
        assert await office.verdicts() == {"claim.play": "cluster is stopped"}
        await office.claim("m")
        assert sorted(await stored()) == ["v:claim.play:m", "v:claim.play:n"]
        await office.desk("m").revoke_own("it stops", started=False)
        assert sorted(await stored()) == ["v:claim.play:n"]
        await office.set("cluster", "running")
        assert await office.claim() == ["play:v:0"]
        assert await stored() == {}

    engine.run(story)
