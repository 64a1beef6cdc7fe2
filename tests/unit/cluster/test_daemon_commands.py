"""A command is stored until its node has settled it, and every node sees only its own."""

from pathlib import Path

import pytest

from ringrift.cluster import daemon_commands
from ringrift.cluster.daemon_commands import _COMMANDS_MAX
from ringrift.events.daemon import CommandDone, CommandIssued
from ringrift.kernel.errors import UnknownName
from unit.work.world import World, play


def command(daemon: str = "fill", node: str = "here", action: str = "stop") -> CommandIssued:
    """Issue a command."""
    return CommandIssued(daemon=daemon, node=node, action=action, by="me")


async def issue_all(world: World, *events: CommandIssued) -> None:
    """Give orders, each by itself."""
    for event in events:
        async with world.store.begin() as tx:
            await daemon_commands.issue(tx, world.envelopes, event)


async def waiting(world: World, node: str = "here") -> list[tuple[str, str]]:
    """Return the commands that wait for *node*."""
    async with world.store.read() as view:
        return [(command.daemon, command.action) for command in await daemon_commands.pending(view, node)]


def test_each_node_reads_its_own_commands_oldest_first(tmp_path: Path) -> None:
    """This holds also for node names with a common prefix."""

    async def story(world: World) -> None:
        others = [command(node=node) for node in ("her", "here2", "here-2", "a", "z")]
        await issue_all(world, command("fill"), *others, command("rate", action="restart"))

        assert await waiting(world) == [("fill", "stop"), ("rate", "restart")]
        assert await waiting(world, "here2") == [("fill", "stop")]
        assert await waiting(world, "other") == []
        assert len(await world.events(CommandIssued)) == 7

    play(tmp_path, story)


def test_a_command_is_settled_once_with_its_outcome(tmp_path: Path) -> None:
    """It is forgotten, and an event names it."""

    async def story(world: World) -> None:
        await issue_all(world, command("fill"), command("rate"))
        async with world.store.read() as view:
            [first, _] = await daemon_commands.pending(view, "here")

        async with world.store.begin() as tx:
            await daemon_commands.complete(tx, world.envelopes, first, "it would not")

        assert await waiting(world) == [("rate", "stop")]
        assert await world.events(CommandDone) == [
            CommandDone(command=first.id, node="here", daemon="fill", action="stop", error="it would not")
        ]

    play(tmp_path, story)


def test_an_unknown_action_is_refused(tmp_path: Path) -> None:
    """Nothing is written."""

    async def story(world: World) -> None:
        with pytest.raises(UnknownName, match="unknown action 'dance'; known: clear, restart, start, stop"):
            await issue_all(world, command(action="dance"))

        assert await world.events() == []
        assert await waiting(world) == []

    play(tmp_path, story)


def test_many_commands_are_taken_in_batches(tmp_path: Path) -> None:
    """The others wait for the next cycle."""

    async def story(world: World) -> None:
        await issue_all(world, *[command(str(number)) for number in range(_COMMANDS_MAX + 3)])

        assert len(await waiting(world)) == _COMMANDS_MAX

    play(tmp_path, story)
