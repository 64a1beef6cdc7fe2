"""What a job of a simulated node sees of the world, for tests that run one themselves."""

from ringrift.sim.blobs import MemoryBlobs
from ringrift.sim.launch import _MemoryFolder
from ringrift.work.launch.process import ToChild
from ringrift.workers.context import WorkerContext


def job_context(blobs: MemoryBlobs) -> WorkerContext:
    """The context of a job over *blobs*, which reports to nobody and is never asked to stop."""
    return WorkerContext(_MemoryFolder(blobs), lambda beat: None, lambda: False, ToChild())
