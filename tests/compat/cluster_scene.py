"""Nodes and lines that tests of the documented cluster write, on the store of the embedded node."""

from typing import Any

from compat.beats import beat, run
from ringrift.cluster.facts import NodeFacts, _Gpu
from ringrift.pipeline.line import LINES, Line, Stage
from ringrift_compat.embedded_node import embedded
from unit.pipeline.story import VARIANT, blob


def facts(*gigabytes: int, **changes: Any) -> NodeFacts:
    """The report of a node that has a GPU for each of *gigabytes*."""
    gpus = tuple(_Gpu(name="NVIDIA H200", memory_bytes=size * 10**9) for size in gigabytes)
    return NodeFacts(**{"cores": 8, "gpus": gpus, "python": "3.11", **changes})


def present(id: str, *gigabytes: int, **changes: Any) -> None:
    """Let a node with these GPUs beat once."""
    beat(id, 1, **{"facts": facts(*gigabytes), **changes})


def open_line(variant: str = VARIANT, **changes: Any) -> Line:
    """Store a line that can use games."""
    start = {"variant": variant, "workload": "fake", "players": 2, "stage": Stage.COLLECTING, "champion": blob("m")}
    line = Line(**{**start, "generation": 0, "tries": 1, **changes})

    async def write() -> None:
        async with embedded.node().store.begin() as tx:
            await LINES.put(tx, [line])

    run(write())
    return line
