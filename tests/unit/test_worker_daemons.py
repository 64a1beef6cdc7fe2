"""Which daemons run where: each finds its parts in every profile, beside a store and on a worker without one."""

import asyncio
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

import pytest

from ringrift import node, worker
from ringrift.cluster.daemon_commands import issue, pending
from ringrift.daemons import DAEMONS
from ringrift.events.daemon import CommandDone, CommandIssued
from ringrift.jobs import NODE_KINDS
from ringrift.kernel.errors import Unbound
from ringrift.kernel.settings import PROFILES
from ringrift.node import Node
from ringrift.supervision.spec import Daemon
from ringrift.worker import Worker
from unit.worker_rig import DirectWire, coordinator, log
from unit.worker_rig import worker as open_worker
from wait import wait_until

OFF = {"node.disabled_daemons": ("fill", "trim_cache")}  # one of the coordinator's, and one of its own
STATES = {"running", "resting"}
OWN = {"deliver", "listen", "trim_cache", "fetch_champions", "run_commands", "share", "prefetch"}
WORKER_PROFILES = [profile for profile in PROFILES if profile != "coordinator"]


def names_of(kind: type, derived: Iterable[str]) -> dict[str, None]:
    """The names of the parts of a Node or a Worker."""
    return dict.fromkeys([*(field.name for field in fields(kind)), *derived])


def binds(daemon: Daemon, parts: dict[str, None]) -> bool:
    """Whether every part that *daemon* asks for is there."""
    own = daemon.own_parts(parts, lambda: None)
    try:
        daemon.bind(own)
        daemon.bind_check(own)
    except Unbound:
        return False
    return True


@pytest.mark.parametrize("profile", PROFILES)
def test_every_daemon_finds_its_parts_in_both_kinds_of_process(profile: str) -> None:
    """A node with a store has what all of its daemons ask for; a worker has what those ask for that need no store."""
    node_parts = names_of(Node, node._DERIVED_PARTS)
    worker_parts = names_of(Worker, worker._DERIVED_PARTS)
    daemons = [daemon for daemon in DAEMONS if profile in daemon.profiles]

    assert [daemon.name for daemon in daemons if not binds(daemon, node_parts)] == []
    assert [daemon.name for daemon in daemons if not daemon.store and not binds(daemon, worker_parts)] == []
    assert not {"store", "roles", "transfer"} & worker_parts.keys()
    assert {daemon.name for daemon in daemons if not daemon.store} == {"beat", "measure_facts", "notice", "work"}


def test_every_profile_of_a_worker_starts_and_claims_no_job_that_needs_a_store(tmp_path: Path) -> None:
    """All of its daemons run, on each profile; one that does not play claims nothing."""

    async def story() -> None:
        wire = DirectWire()
        async with coordinator(tmp_path, wire, *WORKER_PROFILES):
            for profile in WORKER_PROFILES:
                async with open_worker(tmp_path, wire, profile, **{"node.profile": profile, **OFF}) as own:
                    statuses = own.supervisor.statuses()
                    assert {status.name for status in statuses} >= OWN | {"beat", "work"}
                    await wait_until(lambda own=own: {s.state for s in own.supervisor.statuses()} == STATES, 10.0)
                    assert not own.runner.kinds & NODE_KINDS
                    assert bool(own.runner.kinds) == (profile != "minimal")

    asyncio.run(story())


@pytest.mark.parametrize("loses", [set(), {"commands"}])
def test_a_command_reaches_a_daemon_of_a_worker_and_its_outcome_comes_back_once(
    tmp_path: Path, loses: set[str]
) -> None:
    """One that can be carried out and one that cannot, also if every second reply gets lost; another node's is left."""

    async def story() -> None:
        wire = DirectWire()
        wire.loses = loses
        async with coordinator(tmp_path, wire, "w1") as c1, open_worker(tmp_path, wire) as own:
            targets = [("w1", "listen"), ("w1", "missing"), ("w2", "listen")]
            commands = [CommandIssued(node=node, daemon=daemon, action="restart", by="me") for node, daemon in targets]
            async with c1.store.begin() as tx:
                for command in commands:
                    await issue(tx, c1.envelopes, command)

            async def is_done() -> bool:
                return len(await log(c1.store, CommandDone)) == 2

            await wait_until(is_done, 10.0)
            done = [event for event in await log(c1.store, CommandDone) if isinstance(event, CommandDone)]
            assert [(event.node, event.daemon) for event in done] == targets[:2]
            assert (done[0].error, own.supervisor.status("listen").restarts) == ("", 1)
            assert done[1].error.startswith("unknown daemon 'missing'")
            async with c1.store.read() as view:
                assert [command.node for command in await pending(view, "w2")] == ["w2"]
                assert not await pending(view, "w1")

    asyncio.run(story())
