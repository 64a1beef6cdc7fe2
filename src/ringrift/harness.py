"""Cluster: several nodes on one store in one process, each with a blob folder of its own."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from random import Random

from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import TRANSIENT, SettingsError
from ringrift.kernel.settings import Settings
from ringrift.kernel.value import Value
from ringrift.node import Node, open_node_store
from ringrift.pipeline.line_settings import LineSettings, end_rest
from ringrift.store.ports import Store
from ringrift.supervision.spec import COORDINATES
from ringrift.work.launch.ports import Launch

MakeLaunch = Callable[[Settings], Launch] | None


class Member(Value):
    """One node of a cluster."""

    id: str
    profile: str = "full"
    ephemeral: bool = False


def settings_of(settings: Settings, member: Member) -> Settings:
    """*settings* for *member*: its own id, profile and blob folder beside the others'."""
    node = {"id": member.id, "profile": member.profile, "ephemeral": member.ephemeral}
    return settings.overlaid({"node": node, "blobs.folder": str(Path(settings.blobs.folder) / member.id)})


class Cluster:
    """A running cluster."""

    def __init__(self, store: Store, nodes: Sequence[Node]) -> None:
        self.store, self.nodes = store, tuple(nodes)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        settings: Settings,
        members: Sequence[Member],
        clock: Clock,
        rng: Random,
        *,
        launch: MakeLaunch = None,
        lines: Mapping[str, LineSettings] | None = None,
    ) -> AsyncIterator["Cluster"]:
        """Open a node for each of *members*, in order, on the store of *settings*; with *lines* for those alone.

        Raises NotLeader, SettingsError.
        """
        leaders = [member for member in members if member.profile in COORDINATES]
        if not leaders:
            raise SettingsError("node.profile", [m.profile for m in members], "one node must be coordinator or full")
        async with AsyncExitStack() as stack:
            store, nodes = await open_node_store(stack, settings_of(settings, leaders[0]), clock), list[Node]()

            async def leave() -> None:
                with suppress(*TRANSIENT):
                    await end_rest(store, nodes[0].envelopes, clock.now())

            if lines is not None:
                stack.push_async_callback(leave)  # when every node has stopped
            for own in (settings_of(settings, member) for member in members):
                seed, start = rng.getrandbits(64), launch and launch(own)
                opened = Node.open(own, clock, Random(seed), store=store, launch=start, lines=lines)
                nodes.append(await stack.enter_async_context(opened))
            yield cls(store, nodes)
