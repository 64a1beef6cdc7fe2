"""The roster over the wire: a worker's heartbeat goes to the coordinator, and news come back."""

import asyncio
from collections.abc import Callable, Sequence

from ringrift.bus.remote_router import RemoteRouter
from ringrift.cluster.daemon_commands import DaemonCommand
from ringrift.cluster.roster import GossipInvite, NodeRecord
from ringrift.events.base import Envelope
from ringrift.kernel.value import Value
from ringrift.wire.connection import Connection

_BEAT_SECONDS_MAX = 5.0  # an older heartbeat says nothing


class Beat(Value):
    """`beat`: the record of the node that asks; the coordinator sets its id and that its files cannot be reached."""

    record: NodeRecord
    events: tuple[Envelope, ...] = ()  #: Memory events of its jobs, such as work.Progressed, the oldest first.
    island: bool = False  #: Whether it wants to know the champions, to play on when it is cut off.


class BeatAnswer(Value):
    """What the coordinator has for the worker."""

    run_states: bytes = b""  #: MessagePack of :class:`ringrift.work.run_states.RunStates`; empty: as before.
    addresses: tuple[str, ...] = ()  #: Where coordinators can be reached, if they can elsewhere than where it asked.
    champions: dict[str, str] = {}  #: By variant the champion's blob, for islands.
    gossip: GossipInvite | None = None  #: How to take part in it, if there is any.
    commands: bool = False  #: Whether there may be commands to its daemons.


class CommandOutcome(Value):
    """What became of a command to a daemon; *error* is empty if it succeeded."""

    command: str
    error: str = ""


class ReportCommands(Value):
    """`commands`: what became of the commands that the node has run; the answer has those that it has not."""

    outcomes: tuple[CommandOutcome, ...] = ()


class CommandsAnswer(Value):
    """The commands to daemons of the node, the oldest first."""

    commands: tuple[DaemonCommand, ...] = ()


class FindLeader(Value):
    """`leader`: who leads, and where; the answer is a :class:`ringrift.cluster.leadership.Leader`."""


class RemoteRoster:
    """Where a worker puts its record: with the coordinator, as a heartbeat."""

    def __init__(
        self, connection: Connection, router: RemoteRouter, on_answer: Callable[[BeatAnswer], None], *, island: bool
    ) -> None:
        self._connection, self._router, self._on_answer, self._island = connection, router, on_answer, island
        self.invite: GossipInvite | None = None  #: To the gossip, as the coordinator last answered.
        self.issued = asyncio.Event()  #: Set when there may be commands to daemons of this node.

    async def put(self, node: NodeRecord) -> None:
        """Send one heartbeat with the events of jobs since the last.  Raises NodeAway if no coordinator answers."""
        beat = Beat(record=node, events=self._router.take_job_events(), island=self._island)
        answer = await self._connection.call("beat", beat, BeatAnswer, seconds_max=_BEAT_SECONDS_MAX)
        self.invite = answer.gossip
        if answer.commands:
            self.issued.set()
        self._on_answer(answer)

    async def report_commands(self, outcomes: Sequence[CommandOutcome]) -> Sequence[DaemonCommand]:
        """Report *outcomes*; the commands that are still to be run.  Raises NodeAway if no coordinator answers."""
        body = ReportCommands(outcomes=tuple(outcomes))
        return (await self._connection.call("commands", body, CommandsAnswer)).commands
