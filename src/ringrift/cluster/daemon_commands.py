"""Commands of an operator to a daemon of some node, stored until that node has run them and reported the outcome."""

from collections.abc import Collection

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.events.base import Envelope
from ringrift.events.daemon import CommandDone, CommandIssued
from ringrift.kernel.errors import require_name
from ringrift.kernel.value import Value
from ringrift.store.ports import Reads, Tx
from ringrift.store.records import Records

ACTIONS = ("start", "stop", "restart", "clear")
_COMMANDS_MAX = 64  # commands that a node runs at once; the others wait


class DaemonCommand(Value):
    """One command; its id is that of the event that announces it."""

    id: str
    node: str
    daemon: str
    action: str  # one of ACTIONS

    @property
    def key(self) -> str:
        """The record id: the commands of one node stand together."""
        return f"{self.node}/{self.id}"


_COMMANDS = Records("daemon_command", DaemonCommand, id="key", limit=_COMMANDS_MAX)


async def issue(tx: Tx, envelopes: EnvelopeFactory, event: CommandIssued) -> Envelope:
    """Store the command of *event* and publish it: the event alone starts nothing.  Raises UnknownName."""
    require_name("action", event.action, ACTIONS)
    [envelope] = await tx.append([envelopes.make(event, source="commands")])
    command = DaemonCommand(id=envelope.id, node=event.node, daemon=event.daemon, action=event.action)
    await _COMMANDS.put(tx, [command])
    return envelope


async def pending(view: Reads, node: str) -> list[DaemonCommand]:
    """The commands that *node* has not run yet, oldest first."""
    commands = await _COMMANDS.scan(view, f"{node}/")  # the commands of other nodes stand behind these
    return [command for command in commands.values() if command.node == node]


async def nodes_with_commands(view: Reads, nodes: Collection[str]) -> set[str]:
    """Those of *nodes* that may have commands to run, by one look: all of them if too many wait to be told apart."""
    commands = await _COMMANDS.scan(view)
    if len(commands) >= _COMMANDS_MAX:
        return set(nodes)
    return {command.node for command in commands.values()}.intersection(nodes)


async def complete(tx: Tx, envelopes: EnvelopeFactory, command: DaemonCommand, error: str = "") -> None:
    """Delete *command* and publish its outcome; *error* is empty if it succeeded."""
    await _COMMANDS.delete(tx, [command.key])
    done = CommandDone(command=command.id, node=command.node, daemon=command.daemon, action=command.action, error=error)
    await tx.append([envelopes.make(done, source="commands")])
