"""Jobs go only to nodes that fit them, judged at the claim by what a node reported; why prints the verdict."""

from pathlib import Path
from typing import Any

import pytest

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cli.why_node import describe_idleness
from ringrift.cluster.facts import NodeFacts, _Gpu
from ringrift.cluster.placement import set_labels
from ringrift.cluster.roster import NODES, NodeRecord
from ringrift.jobs import Play, Sync, Train
from ringrift.kernel.settings import Settings, WorkSettings
from ringrift.pipeline.line_settings import own_settings
from ringrift.work.desk import StoreDesk
from ringrift.work.limits import LINE_WORK, VERDICTS, LineWork
from ringrift.work.run_states import set_run_state
from ringrift.work.tries import able_nodes
from unit.work.world import World, play

V, MODEL = "hex8_2p", "m" * 64
PLAY, TRAIN = Play(variant=V, model=MODEL, games=5), Train(variant=V, generation=0)
MEASURED = NodeFacts(python="3.12", cores=2, memory_bytes=8 * 10**9, workloads=("fake",))


def desk(world: World, node: str = "w") -> StoreDesk:
    """The desk of a node of another machine."""
    envelopes = EnvelopeFactory(node, world.clock, world.ids)
    own = StoreDesk(world.store, world.clock, envelopes, WorkSettings())
    own.is_remote = True
    return own


async def report(world: World, node: str = "w", facts: NodeFacts = MEASURED, **fields: Any) -> None:
    """Let *node* report."""
    await world.roster.put(NodeRecord(id=node, profile="full", address="", beat=1, facts=facts, **fields))


async def settle(world: World, **requires: dict[str, str | float]) -> None:
    """Store what the jobs of the line need, and enqueue one of each kind."""
    async with world.store.begin() as tx:
        await LINE_WORK.put_at(tx, {V: LineWork(workload="fake", requires=requires)})
    await world.desk().enqueue([PLAY, TRAIN])


async def rule(world: World, kind: str = "train", node: str = "w") -> str:
    """Why *node* left jobs of *kind*."""
    async with world.store.read() as view:
        verdict = await VERDICTS.get(view, f"{V}:claim.{kind}:{node}")
    return verdict.rule if verdict else ""


async def kinds(desk: StoreDesk, **options: Any) -> list[str]:
    """The kinds that it gets."""
    return sorted(lease.kind for lease in await desk.claim(["play", "train"], 9, **options))


@pytest.mark.parametrize("has_beat", [False, True])
def test_a_remote_node_that_has_not_reported_gets_nothing(tmp_path: Path, has_beat: bool) -> None:
    """Once it says what it can run, it gets all that it can."""

    async def story(world: World) -> None:
        await settle(world)
        if has_beat:
            await report(world, facts=NodeFacts())
        assert await kinds(desk(world)) == []
        assert await rule(world, "play") == "node w cannot do play jobs: it has not reported yet what it can run"

        await report(world)
        assert await kinds(desk(world)) == ["play", "train"]
        assert await rule(world, "play") == ""

    play(tmp_path, story)


def test_a_remote_node_gets_jobs_of_workloads_that_it_lists(tmp_path: Path) -> None:
    """Another one gets the rest; a node that says nothing about workloads is believed to have them."""

    async def story(world: World) -> None:
        await settle(world)
        await report(world, facts=NodeFacts(python="3.12", workloads=("chess",)))
        await report(world, "any", facts=NodeFacts(python="3.12"))

        assert await kinds(desk(world)) == []
        assert await rule(world) == "node w cannot run workload fake: it is not installed there"
        assert await kinds(desk(world, "any")) == ["play", "train"]

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("required", "facts", "reason"),
    [
        ({"device": "gpu"}, {"gpus": (_Gpu(name="H200"),)}, "it has no GPU, gpu is needed"),
        ({"memory_gb": 16}, {"memory_bytes": 16 * 10**9}, "it has 8 GB of memory, 16 GB are needed"),
    ],
)
@pytest.mark.parametrize("is_remote", [False, True])
def test_a_job_waits_for_a_node_that_has_what_it_needs(
    tmp_path: Path, required: dict[str, str | float], facts: dict[str, Any], reason: str, is_remote: bool
) -> None:
    """Other jobs of its line do not wait, and a node of the coordinator's machine is judged alike."""

    async def story(world: World) -> None:
        await settle(world, train=required)
        await report(world)
        own = desk(world) if is_remote else world.desk("w")

        assert await kinds(own) == ["play"]
        assert await rule(world) == f"node w cannot do train jobs: {reason}"
        async with world.store.read() as view:
            assert await able_nodes(view, "train", V) == set(), "nobody waits for it to try"
            assert await able_nodes(view, "play", V) == {"w"}

        values = {name: getattr(MEASURED, name) for name in MEASURED.__struct_fields__}
        await report(world, facts=NodeFacts(**{**values, **facts}))
        assert await kinds(own) == ["train"]

    play(tmp_path, story)


def test_a_job_waits_for_a_node_with_its_label(tmp_path: Path) -> None:
    """An operator gives it, and the next heartbeat of the node does not take it away."""

    async def story(world: World) -> None:
        await settle(world, train={"zone": "attic"})
        await report(world, labels={"zone": "cellar"})
        assert await kinds(desk(world)) == ["play"]
        assert await rule(world) == "node w cannot do train jobs: its label zone is cellar, attic is needed"

        async with world.store.begin() as tx:
            await set_labels(tx, "w", {"zone": "attic"})
        await report(world, labels={"zone": "cellar"})
        assert await kinds(desk(world)) == ["train"]

    play(tmp_path, story)


def test_a_key_without_the_scope_gets_no_such_jobs(tmp_path: Path) -> None:
    """And why says that it lacks it."""

    async def story(world: World) -> None:
        await settle(world)
        await report(world)

        assert await kinds(desk(world), denied={"train": "train"}) == ["play"]
        assert await rule(world) == "node w cannot do train jobs: its key lacks the scope train"

    play(tmp_path, story)


@pytest.mark.parametrize("state", ["paused", "draining"])
def test_a_node_that_is_cordoned_or_drained_gets_no_new_job_and_keeps_what_it_has(tmp_path: Path, state: str) -> None:
    """Until it is uncordoned; other nodes go on."""

    async def story(world: World) -> None:
        await settle(world)
        await report(world)
        await report(world, "x")
        leases = await desk(world).claim(["play"], 1)
        async with world.store.begin() as tx:
            await set_run_state(tx, world.envelopes, now=world.clock.now(), scope="node:w", state=state, reason="fan")

        assert await kinds(desk(world)) == []
        assert await rule(world) == f"node:w is {state}: fan"
        assert [row.id for row in await world.jobs("claimed")] == [lease.job for lease in leases]
        async with world.store.begin() as tx:
            await set_run_state(tx, world.envelopes, now=world.clock.now(), scope="node:w", state="running")
        assert await kinds(desk(world)) == ["train"]

    play(tmp_path, story)


def test_why_says_why_a_node_idles(tmp_path: Path) -> None:
    """The widest reason first; one that nothing keeps has only nothing to do."""

    async def story(world: World) -> None:
        await settle(world, train={"device": "gpu"})
        await report(world)

        async def why() -> str:
            async with world.store.read() as view:
                record = await NODES.get(view, "w")
                assert record is not None
                return await describe_idleness(view, record, world.clock.now())

        assert await why() == "node w idles: no job that it can do is ready"
        await desk(world).claim(["train"], 1)
        reason = f"{V} train jobs wait: node w cannot do train jobs: it has no GPU, gpu is needed"
        assert await why() == f"node w idles: {reason}"
        async with world.store.begin() as tx:
            await set_run_state(tx, world.envelopes, now=world.clock.now(), scope="node:w", state="paused", by="anna")
        first, second = (await why()).splitlines()
        assert first.startswith("node w idles: node w is paused by anna")
        assert second.strip() == reason
        await report(world, gone=True)
        assert (await why()).startswith("node w idles: it has left")

    play(tmp_path, story)


def test_a_line_takes_the_requirements_of_the_node_that_opens_it() -> None:
    """So that every claim reads the same ones."""
    settings = Settings().overlaid({"work.requires": {"train": {"device": "gpu"}}})

    assert own_settings(settings).requires == {"train": {"device": "gpu"}}


def test_files_are_moved_whatever_a_line_needs(tmp_path: Path) -> None:
    """A requirement binds its own kind."""

    async def story(world: World) -> None:
        await settle(world, train={"device": "gpu"})
        await world.desk().enqueue([Sync(variant=V, blob=MODEL, kind_of="games", source="")])

        assert len(await world.desk("x").claim(["sync"], 9)) == 1

    play(tmp_path, story)
