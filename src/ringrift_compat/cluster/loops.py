"""The documented loops: each is a daemon of the program's node, and ticks at least as often as the documents say."""

from operator import attrgetter
from typing import Any, ClassVar

import msgspec

from ringrift_compat.daemons.duties import DUTIES
from ringrift_compat.daemons.manager import DaemonManager
from ringrift_compat.daemons.runners import DaemonRunner
from ringrift_compat.daemons.types import DaemonType
from ringrift_compat.embedded_host import open_host
from ringrift_compat.embedded_node import EmbeddedNode, embedded


class _Loop(DaemonRunner):
    """A daemon with the longest time between two of its ticks, in seconds; one that reacts to events needs none."""

    interval: ClassVar[float]

    async def start(self) -> bool:
        """Start it; whether it runs.  One that runs already keeps its pace."""
        if self.unbuilt_duty() is None:
            await embedded.post(_set_pace(embedded.node(), DUTIES[self.daemon_type.name].target, self.interval))
        return await super().start()


async def _set_pace(node: EmbeddedNode, daemon: str, seconds: float) -> None:
    host = await open_host(node)
    spec, supervisor = host.supervisor.spec(daemon), host.supervisor
    if spec.every is None or supervisor.status(daemon).should_run:
        return
    every = attrgetter(spec.every)(host.settings) if isinstance(spec.every, str) else spec.every
    if every > seconds:
        supervisor.add(msgspec.structs.replace(spec, every=seconds))


class EloSyncLoop(_Loop):
    """Rates every player from the results of all nodes."""

    default, interval = DaemonType.ELO_SYNC, 60.0


class IdleDetectionLoop(_Loop):
    """Not yet: finds GPUs without work."""

    default, interval = DaemonType.IDLE_RESOURCE, 30.0


class AutoScalingLoop(_Loop):
    """Not yet: asks providers for more or fewer nodes."""

    default, interval = DaemonType.AVAILABILITY_PROVISIONER, 120.0


class JobReaperLoop(_Loop):
    """Takes jobs back whose holder has stopped renewing them."""

    default, interval = DaemonType.RESCUE, 60.0


class QueuePopulatorLoop(_Loop):
    """Keeps self-play queued; it reacts to what changes the queue, so it needs no interval."""

    default, interval = DaemonType.QUEUE_POPULATOR, 30.0


class ValidationLoop(_Loop):
    """Enqueues the check of models that come from elsewhere; those of the loop itself are checked by the pipeline."""

    default, interval = DaemonType.IMPORT_MODELS, 300.0


_LOOPS = (EloSyncLoop, IdleDetectionLoop, AutoScalingLoop, JobReaperLoop, QueuePopulatorLoop, ValidationLoop)


class LoopManager:
    """Runs the documented loops on the node of this program."""

    def __init__(self, manager: DaemonManager | None = None) -> None:
        self.loops = {loop.__name__: loop(manager=manager) for loop in _LOOPS}

    async def start(self) -> dict[str, bool]:
        """Start every loop that is built and that the settings do not disable; which of the six run."""
        return {name: await loop.start() for name, loop in self.loops.items()}

    async def stop(self) -> dict[str, bool]:
        """Stop them; which no longer run."""
        return {name: await loop.stop() for name, loop in self.loops.items() if loop.unbuilt_duty() is None}

    def get_status(self) -> dict[str, dict[str, Any]]:
        """For each loop its interval, whether it runs, and why not."""
        infos = {name: loop.info for name, loop in self.loops.items()}
        return {
            name: {"interval": self.loops[name].interval, "running": info.is_running, "reason": info.reason}
            for name, info in infos.items()
        }
