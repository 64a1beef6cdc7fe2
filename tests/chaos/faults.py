"""The faults that the chaos harness draws, and what ``ringrift status`` must print while each of them lasts."""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One kind of fault: *phrases* are patterns, one of which ``ringrift status`` must print while it lasts.

    ``{node}`` and ``{pid}`` in a pattern stand for the node or process that has the fault.  Without phrases the fault
    is over at once.  *seconds* is how long it lasts: from, to.  With *mounts* it needs file systems of its own.
    One that *blocks* may keep every node from writing or working, so that faults beside it do not show meanwhile.
    """

    name: str
    phrases: tuple[str, ...] = ()
    seconds: tuple[float, float] = (5.0, 20.0)
    targets: tuple[str, ...] = ("n1", "n2", "n3")
    mounts: bool = False
    blocks: bool = False

    def is_named(self, output: str, node: str, pid: int) -> bool:
        """Whether *output* of ``ringrift status`` names this fault of *node* or *pid*."""
        values = {"node": re.escape(node), "pid": str(pid)}
        patterns = [pattern.format(**values) for pattern in self.phrases]
        return any(re.search(pattern, line, re.IGNORECASE) for pattern in patterns for line in output.splitlines())


def fault_lines(output: str) -> list[str]:
    """The lines of *output* of ``ringrift status`` that name a fault."""
    return [line for line in output.splitlines() if line.startswith("FAULT") or "cannot start workers" in line]


_SILENT = r"(silent|no heartbeat|no beat|not beat|does not run|not running|is stopped|has ended|away)"
_GONE = (rf"{{node}}\b.*{_SILENT}",)
_PROGRAMS = ("p1", "p2")

FAULTS = {
    fault.name: fault
    for fault in (
        Fault("kill", seconds=(0.0, 3.0), targets=("n1", "n2", "n3", *_PROGRAMS)),
        Fault("down", _GONE, seconds=(4.0, 12.0)),
        Fault("stop", (rf"{{node}}\b.*{_SILENT}", r"process {pid}\b.*stopped"), seconds=(2.0, 25.0), blocks=True),
        Fault(
            "stop_in_transaction",
            (r"process {pid}\b.*(stopped|write lock)", r"(write lock|stopped).*\b{pid}\b"),
            seconds=(2.0, 25.0),
            blocks=True,
        ),
        Fault(
            "write_lock", (r"process {pid}\b.*write lock", r"write lock.*\b{pid}\b"), targets=("store",), blocks=True
        ),
        Fault("fork", targets=_PROGRAMS),
        Fault("no_descriptors", (r"descriptor", r"too many open files")),
        Fault("full_store", (r"no room",), targets=("store",), mounts=True, blocks=True),
        Fault("full_blobs", (r"no room",), targets=("blobs",), mounts=True, blocks=True),
        Fault("read_only_blobs", (r"read-only",), targets=("blobs",), mounts=True, blocks=True),
        Fault("missing_folder", (r"blob folder.*\b{node}\b", r"{node}\b.*blob folder"), seconds=(8.0, 40.0)),
        Fault("empty_folder", (r"blob folder.*\b{node}\b", r"{node}\b.*blob folder"), seconds=(8.0, 40.0)),
        Fault("no_workers", (r"{node}\b.*cannot start workers?", r"cannot start workers?.*\b{node}\b")),
        Fault("stuck_handler", (r"\bstuck(_thread)?\b.*(not returned|hang|longer than)",), targets=("n3",)),
        Fault("clock_step", (r"clock.*\b{node}\b", r"{node}\b.*clock")),
        Fault("store_errors", (r"FAULT.*\b{node}\b.*(wait|busy)",)),
    )
}
