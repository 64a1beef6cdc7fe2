"""The documented orchestrator: its managers on one object, and a node that is run by the documented variables."""

import argparse
from collections.abc import Sequence

from ringrift.cli import main as cli
from ringrift.supervision.spec import COORDINATES
from ringrift_compat.cluster.loops import LoopManager
from ringrift_compat.cluster.managers import JobManager, SelfplayScheduler, StateManager, TrainingCoordinator
from ringrift_compat.cluster.node_selector import NodeSelector
from ringrift_compat.daemons.manager import get_daemon_manager
from ringrift_compat.events.event_router import get_router
from ringrift_compat.sync.sync_planner import SyncPlanner
from ringrift_compat.variables import read_settings


class P2POrchestrator:
    """The managers, the loops, the daemons and the router of this program on one object."""

    def __init__(self) -> None:
        self.state_manager, self.job_manager = StateManager(), JobManager()
        self.selfplay_scheduler, self.node_selector = SelfplayScheduler(), NodeSelector()
        self.training_coordinator, self.loop_manager = TrainingCoordinator(), LoopManager()
        self.daemon_manager, self.event_router = get_daemon_manager(), get_router()
        self.sync_planner = SyncPlanner()


def _command() -> list[str]:
    """The command that runs the node which the settings and the documented variables describe."""
    node = read_settings().settings.node
    if node.coordinators:
        return ["join", *node.coordinators]
    # A node that is told to be the coordinator does no work of its own; any other one does both.
    return ["coordinator"] if node.profile in COORDINATES - {"full"} else ["coordinator", "--work"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a node until SIGINT or SIGTERM, and exit with the code of the command that does it."""
    description = (
        "Run a node by the documented variables: a worker of RINGRIFT_COORDINATOR_URL, which joins with "
        "RINGRIFT_CLUSTER_AUTH_TOKEN; without an address a coordinator at RINGRIFT_P2P_PORT, which also works unless "
        "RINGRIFT_IS_COORDINATOR is true."
    )
    argparse.ArgumentParser(prog="p2p_orchestrator.py", description=description).parse_args(arguments)
    cli.main(_command())
