"""Trust writes down what follows from results, and takes a node's games away when it is quarantined."""

from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cluster.roster import NodeRecord
from ringrift.daemons.trust import trust
from ringrift.events import node
from ringrift.events.base import Event
from ringrift.events.evaluation import Block, BlocksPlayed
from ringrift.events.selfplay import BatchFinished
from ringrift.events.work import Buried
from ringrift.jobs import Match, Play, Purpose, decode
from ringrift.kernel.errors import LeaseLost
from ringrift.kernel.value import Value, changed
from ringrift.pipeline.line_settings import LINE_SETTINGS, LineSettings
from ringrift.pipeline.trust import CANARIES, SETTLE_SECONDS, TALLIES, TRUSTS
from ringrift.store.ports import JobRow, Renewal
from ringrift.store.records import Records
from ringrift.work.desk import Done
from ringrift.work.limits import QUARANTINES
from unit.cli.command_output import ask
from unit.work.world import World, play

VARIANT = "hex8_2p"
V = TypeVar("V", bound=Value)
WON, LOST = (1.0, 1.0), (0.0, 0.0)


async def react(world: World, event: Event) -> None:
    """Let the reaction handle *event*, on the leader ``a``."""
    async with world.store.begin() as tx:
        leader = EnvelopeFactory("a", world.clock, world.ids)
        await trust(event, world.envelope(event), tx, envelopes=leader, desk=world.desk("a"))


async def join(world: World, *names: str, profile: str = "full") -> None:
    """Let these nodes be here."""
    for name in names:
        await world.roster.put(NodeRecord(id=name, profile=profile, address="", beat=1))


async def recorded(world: World, records: Records[V], id: str) -> V | None:
    """Return the stored state."""
    async with world.store.read() as view:
        return await records.get(view, id)


async def shut(world: World) -> list[str]:
    """Return the quarantined nodes."""
    async with world.store.read() as view:
        return sorted(await QUARANTINES.scan(view))


@pytest.mark.parametrize("baselines", [(), ("weak",), ("weak", "strong"), None])
def test_canaries_ask_only_for_what_the_variant_declares(tmp_path: Path, baselines: tuple[str, ...] | None) -> None:
    """A variant without such players, like many an own game, is asked for none; also one that was asked before."""

    async def story(world: World) -> None:
        await join(world, "a", "n1")
        if baselines == ():
            await react(world, batch("a", 40))
            await world.desk("a").claim(["match"], 9)
        async with world.store.begin() as tx:
            await LINE_SETTINGS.put_at(tx, {VARIANT: LineSettings(workload="chess", baselines=baselines)})
        await react(world, batch("n1", 40))

        rows = [decode(row.kind, row.body) for row in await world.jobs("ready")]
        pairs = [(row.candidate, row.opponent) for row in rows if isinstance(row, Match)]
        expected = {(): [], ("weak",): [("weak", "weak")], None: [("greedy", "random")]}
        assert pairs == expected.get(baselines, [("strong", "weak")])

    play(tmp_path, story)


async def canary(world: World, name: str, scores: tuple[float, ...]) -> None:
    """Let *name* play enough for a canary, and report it with *scores*."""
    await react(world, batch(name, 40))
    [job] = [row for row in await canaries(world, "ready") if row.node == name]
    request = msgspec.json.decode(job.body, type=Match)
    [lease] = await world.desk(name).claim({"match"}, 1)
    await world.desk(name).finish([Done(lease=Renewal(job=lease.job, fence=lease.fence))])
    blocks = tuple(Block(number=request.first + number, scores=scores) for number in range(request.count))
    await react(world, node.CanaryPlayed(variant=VARIANT, seed=request.seed, blocks=blocks, node=name))


async def canaries(world: World, *states: str) -> list[JobRow]:
    """The canary jobs there are."""
    rows = [row for row in await world.jobs(*states) if row.kind == Match.kind()]
    return [row for row in rows if msgspec.json.decode(row.body, type=Match).is_canary]


def batch(name: str, games: int) -> BatchFinished:
    """Self-play of a node."""
    return BatchFinished(variant=VARIANT, batch="b", games=games, node=name, model="m")


def test_among_three_the_majority_decides(tmp_path: Path) -> None:
    """A leader that is wrong is quarantined like any other node, with its verdict, and an event."""

    async def story(world: World) -> None:
        await join(world, "a", "b", "c")
        for name, scores in (("a", LOST), ("b", WON), ("c", WON)):
            await canary(world, name, scores)

        assert await shut(world) == ["a"]
        [output] = await world.events(node.Quarantined)
        assert isinstance(output, node.Quarantined)
        assert output.node == "a"

    play(tmp_path, story)


@pytest.mark.parametrize("away", ["gone", "coordinator"])
def test_with_two_players_the_leader_is_trusted(tmp_path: Path, away: str) -> None:
    """A third that has left or plays no matches makes no majority."""

    async def story(world: World) -> None:
        await join(world, "a", "b")
        third = NodeRecord(id="c", profile="coordinator" if away == "coordinator" else "full", address="", beat=1)
        await world.roster.put(msgspec.structs.replace(third, gone=away == "gone"))
        await canary(world, "b", LOST)
        await canary(world, "a", WON)

        assert await shut(world) == ["b"]

    play(tmp_path, story)


def test_while_nodes_are_joining_no_node_is_trusted_alone(tmp_path: Path) -> None:
    """A leader that is wrong must not convict the first to join; when no more come, its reports are the truth."""

    async def story(world: World) -> None:
        await join(world, "a", "b")
        await react(world, node.Joined(node="b", profile="full"))
        await canary(world, "b", LOST)
        await canary(world, "a", WON)
        assert await shut(world) == []

        await world.roster.put(NodeRecord(id="a", profile="full", address="", beat=int(1000 * SETTLE_SECONDS) + 1))
        await canary(world, "b", LOST)
        await canary(world, "a", WON)

        assert await shut(world) == ["b"]

    play(tmp_path, story)


def test_a_leader_that_plays_nothing_is_not_trusted(tmp_path: Path) -> None:
    """If two others differ, it is unknown which is wrong."""

    async def story(world: World) -> None:
        await join(world, "a", profile="coordinator")
        await join(world, "b", "c")
        await canary(world, "b", LOST)
        await canary(world, "c", WON)

        assert await shut(world) == []

    play(tmp_path, story)


def test_the_jobs_of_a_quarantined_node_are_revoked(tmp_path: Path) -> None:
    """Its games are ready for others without having cost an attempt, its canaries are cancelled, its result is
    refused."""

    async def story(world: World) -> None:
        await join(world, "b")
        await react(world, batch("b", 100))
        [lease] = await world.claim(Play(variant=VARIANT, model="m", games=1, seed=5), node="b")
        await ask(world.store, "quarantine", "add", "b")
        [output] = await world.events(node.Quarantined)
        assert isinstance(output, node.Quarantined)

        await react(world, output)

        [job] = await world.jobs("ready")
        assert (job.kind, job.attempts, job.error) == ("play", 0, "node b is quarantined")
        assert [row.state for row in await canaries(world)] == ["cancelled"]
        with pytest.raises(LeaseLost):
            await world.desk("b").finish([Done(lease=Renewal(job=lease.job, fence=lease.fence))])

    play(tmp_path, story)


def test_the_blocks_of_a_quarantined_node_leave_every_tally(tmp_path: Path) -> None:
    """This holds also for a quarantine by an operator."""

    async def story(world: World) -> None:
        await join(world, "a", "b")
        for name in "ab":
            played = (Block(number=0, scores=WON),)
            await react(world, BlocksPlayed(variant=VARIANT, candidate="c", champion="m", blocks=played, node=name))
        await ask(world.store, "quarantine", "add", "b")
        await react(world, node.Quarantined(node="b", reason="why not"))

        tally = await recorded(world, TALLIES, f"{VARIANT}:c:m:")
        assert tally is not None
        assert list(tally.nodes) == ["a"]

    play(tmp_path, story)


def test_a_released_node_starts_anew(tmp_path: Path) -> None:
    """Its games and its canary reports are dropped, so that an old lie does not convict it again."""

    async def story(world: World) -> None:
        await join(world, "a", "b", "c")
        for name, scores in (("b", LOST), ("a", WON), ("c", WON)):
            await canary(world, name, scores)
        assert await shut(world) == ["b"]

        await ask(world.store, "quarantine", "release", "b")
        await react(world, node.Released(node="b", by="here"))

        canaries_of = await recorded(world, CANARIES, VARIANT)
        assert canaries_of is not None
        assert sorted(canaries_of.reports[0]) == ["a", "c"]
        assert await recorded(world, TRUSTS, "b") is None
        await canary(world, "b", WON)
        assert await shut(world) == []

    play(tmp_path, story)


def test_an_ended_quarantine_revokes_nothing(tmp_path: Path) -> None:
    """Released before the event is consumed, a node keeps its jobs."""

    async def story(world: World) -> None:
        await join(world, "b")
        await world.claim(Play(variant=VARIANT, model="m", games=1, seed=5), node="b")

        await react(world, node.Quarantined(node="b", reason="long ago"))

        assert len(await world.jobs("claimed")) == 1

    play(tmp_path, story)


@pytest.mark.parametrize("event", [node.Left(node="b"), node.Lost(node="b", seconds=15.0)])
def test_canaries_of_a_lost_node_are_cancelled(tmp_path: Path, event: Event) -> None:
    """They are cancelled, and enqueued again when it is back."""

    async def story(world: World) -> None:
        await react(world, batch("b", 100))
        await react(world, event)
        assert [row.state for row in await canaries(world)] == ["cancelled"]

        await react(world, batch("b", 1000))

        assert len(await canaries(world, "ready")) == 1

    play(tmp_path, story)


def test_a_workload_without_such_players_gets_one_canary(tmp_path: Path) -> None:
    """The refusal is stored for all nodes; other buried jobs mean nothing here."""

    async def story(world: World) -> None:
        await react(world, batch("b", 100))
        [job] = await canaries(world)
        buried = Buried(variant=VARIANT, job="j", kind="match", key=job.key, attempts=1, error="unknown")
        for purpose in (Purpose.PROMOTION, Purpose.CANARY):
            await react(world, changed(buried, purpose=purpose, target=job.node or ""))

        await react(world, batch("c", 1000))

        canaries_of = await recorded(world, CANARIES, VARIANT)
        assert canaries_of is not None
        assert canaries_of.refused
        assert len(await canaries(world)) == 1

    play(tmp_path, story)
