"""Trust writes down what follows from results, and takes a node's games away when it is quarantined."""

from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from ringrift.cli import quarantine as command
from ringrift.cluster.roster import NodeRecord
from ringrift.daemons.trust import trust
from ringrift.evaluation.canary import Canaries
from ringrift.evaluation.homogeneity import Tally
from ringrift.events import node
from ringrift.events.base import Event
from ringrift.events.evaluation import BlocksPlayed, Played
from ringrift.events.selfplay import BatchFinished
from ringrift.events.work import Buried
from ringrift.jobs import Match, Play
from ringrift.kernel.errors import LeaseLost
from ringrift.kernel.value import Value
from ringrift.pipeline.trust import CANARIES, KIND, SETTLE_SECONDS, TALLY, Trust
from ringrift.store.ports import Held, JobRow
from ringrift.work import quarantine
from ringrift.work.desk import Done
from unit.work.world import World, play

VARIANT = "hex8_2p"
V = TypeVar("V", bound=Value)
WON, LOST = (1.0, 1.0), (0.0, 0.0)


async def say(world: World, event: Event) -> None:
    """Let the reaction take in *event*, on the leader ``a``."""
    async with world.store.begin() as tx:
        await trust(
            event, world.envelope(event), tx, node_id="a", ids=world.ids, scribe=world.scribe, desk=world.desk("a")
        )


async def join(world: World, *names: str, profile: str = "full") -> None:
    """Let these nodes be here."""
    for name in names:
        await world.roster.say(NodeRecord(id=name, profile=profile, address="", beat=1))


async def recorded(world: World, kind: str, id: str, type: type[V]) -> V | None:
    """What is written down."""
    async with world.store.read() as view:
        body = (await view.get(kind, [id])).get(id)
    return None if body is None else msgspec.json.decode(body, type=type)


async def shut(world: World) -> list[str]:
    """Who is quarantined."""
    async with world.store.read() as view:
        return sorted(await quarantine.everyone(view))


async def canary(world: World, name: str, scores: tuple[float, ...]) -> None:
    """Let *name* play enough for a canary, and report it with *scores*."""
    await say(world, batch(name, 40))
    [job] = [row for row in await canaries(world, "ready") if row.node == name]
    asked = msgspec.json.decode(job.body, type=Match)
    [lease] = await world.desk(name).claim({"match"}, 1)
    await world.desk(name).finish([Done(held=Held(job=lease.job, fence=lease.fence))])
    blocks = tuple(Played(number=asked.first + number, scores=scores) for number in range(asked.count))
    await say(world, node.CanaryPlayed(variant=VARIANT, seed=asked.seed, blocks=blocks, node=name))


async def canaries(world: World, *states: str) -> list[JobRow]:
    """The canary jobs there are."""
    return [row for row in await world.jobs(*states) if row.key.startswith("canary:")]


def batch(name: str, games: int) -> BatchFinished:
    """Self-play of a node."""
    return BatchFinished(variant=VARIANT, batch="b", games=games, node=name, model="m")


def test_among_three_the_majority_decides(tmp_path: Path) -> None:
    """A leader that is wrong is quarantined like anybody else, with its verdict, and said to be."""

    async def story(world: World) -> None:
        await join(world, "a", "b", "c")
        for name, scores in (("a", LOST), ("b", WON), ("c", WON)):
            await canary(world, name, scores)

        assert await shut(world) == ["a"]
        [said] = await world.told(node.Quarantined)
        assert isinstance(said, node.Quarantined)
        assert said.node == "a"

    play(tmp_path, story)


@pytest.mark.parametrize("away", ["gone", "coordinator"])
def test_of_two_that_play_the_leader_is_trusted(tmp_path: Path, away: str) -> None:
    """A third that has left or plays no matches makes no majority."""

    async def story(world: World) -> None:
        await join(world, "a", "b")
        third = NodeRecord(id="c", profile="coordinator" if away == "coordinator" else "full", address="", beat=1)
        await world.roster.say(msgspec.structs.replace(third, gone=away == "gone"))
        await canary(world, "b", LOST)
        await canary(world, "a", WON)

        assert await shut(world) == ["b"]

    play(tmp_path, story)


def test_while_nodes_are_joining_nobody_is_trusted_alone(tmp_path: Path) -> None:
    """A leader that is wrong must not convict the first who come; when no more come, its word is the truth."""

    async def story(world: World) -> None:
        await join(world, "a", "b")
        await say(world, node.Joined(node="b", profile="full"))
        await canary(world, "b", LOST)
        await canary(world, "a", WON)
        assert await shut(world) == []

        world.clock.seconds += SETTLE_SECONDS
        await canary(world, "b", LOST)
        await canary(world, "a", WON)

        assert await shut(world) == ["b"]

    play(tmp_path, story)


def test_a_leader_that_plays_nothing_is_no_truth(tmp_path: Path) -> None:
    """Of two others that differ nobody can say which is wrong."""

    async def story(world: World) -> None:
        await join(world, "a", profile="coordinator")
        await join(world, "b", "c")
        await canary(world, "b", LOST)
        await canary(world, "c", WON)

        assert await shut(world) == []

    play(tmp_path, story)


def test_what_a_quarantined_node_has_under_way_is_taken_away(tmp_path: Path) -> None:
    """Its games are ready for others without having cost a try, its canaries are cancelled, its result is refused."""

    async def story(world: World) -> None:
        await join(world, "b")
        await say(world, batch("b", 100))
        [lease] = await world.claim(Play(variant=VARIANT, model="m", games=1, seed=5), node="b")
        await command.add(world.store, "b", "why not", "here", 5.0)
        [said] = await world.told(node.Quarantined)
        assert isinstance(said, node.Quarantined)

        await say(world, said)

        [job] = await world.jobs("ready")
        assert (job.kind, job.attempts, job.error) == ("play", 0, "node b is quarantined")
        assert [row.state for row in await canaries(world)] == ["cancelled"]
        with pytest.raises(LeaseLost):
            await world.desk("b").finish([Done(held=Held(job=lease.job, fence=lease.fence))])

    play(tmp_path, story)


def test_its_blocks_leave_every_tally(tmp_path: Path) -> None:
    """Also where a person and no residual has found it."""

    async def story(world: World) -> None:
        await join(world, "a", "b")
        for name in "ab":
            played = (Played(number=0, scores=WON),)
            await say(world, BlocksPlayed(variant=VARIANT, candidate="c", champion="m", blocks=played, node=name))
        await command.add(world.store, "b", "why not", "here", 5.0)
        await say(world, node.Quarantined(node="b", reason="why not"))

        tally = await recorded(world, TALLY, f"{VARIANT}:c:m:", Tally)
        assert tally is not None
        assert list(tally.nodes) == ["a"]

    play(tmp_path, story)


def test_a_released_node_starts_anew(tmp_path: Path) -> None:
    """Its games and its words on canaries are forgotten, so that an old lie does not convict it again."""

    async def story(world: World) -> None:
        await join(world, "a", "b", "c")
        for name, scores in (("b", LOST), ("a", WON), ("c", WON)):
            await canary(world, name, scores)
        assert await shut(world) == ["b"]

        await command.release(world.store, "b", "here")
        await say(world, node.Released(node="b", by="here"))

        known = await recorded(world, CANARIES, VARIANT, Canaries)
        assert known is not None
        assert sorted(known.words[0]) == ["a", "c"]
        assert await recorded(world, KIND, "b", Trust) is None
        await canary(world, "b", WON)
        assert await shut(world) == []

    play(tmp_path, story)


def test_a_quarantine_that_is_over_takes_nothing(tmp_path: Path) -> None:
    """Released before anybody has read of it, a node keeps what it does."""

    async def story(world: World) -> None:
        await join(world, "b")
        await world.claim(Play(variant=VARIANT, model="m", games=1, seed=5), node="b")

        await say(world, node.Quarantined(node="b", reason="long ago"))

        assert len(await world.jobs("claimed")) == 1

    play(tmp_path, story)


@pytest.mark.parametrize("event", [node.Left(node="b"), node.Lost(node="b", seconds=15.0)])
def test_nobody_waits_for_the_canaries_of_a_node_that_is_gone(tmp_path: Path, event: Event) -> None:
    """They are cancelled, and asked for again when it is back."""

    async def story(world: World) -> None:
        await say(world, batch("b", 100))
        await say(world, event)
        assert [row.state for row in await canaries(world)] == ["cancelled"]

        await say(world, batch("b", 1000))

        assert len(await canaries(world, "ready")) == 1

    play(tmp_path, story)


def test_a_workload_without_such_players_is_asked_once(tmp_path: Path) -> None:
    """What was refused is written down for all nodes; other jobs that are given up mean nothing here."""

    async def story(world: World) -> None:
        await say(world, batch("b", 100))
        [job] = await canaries(world)
        for key in ("match:hex8_2p:c:0", job.key):
            await say(world, Buried(variant=VARIANT, job="j", kind="match", key=key, attempts=1, error="unknown"))

        await say(world, batch("c", 1000))

        known = await recorded(world, CANARIES, VARIANT, Canaries)
        assert known is not None
        assert known.refused
        assert len(await canaries(world)) == 1

    play(tmp_path, story)
