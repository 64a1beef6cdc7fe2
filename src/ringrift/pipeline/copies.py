"""Copies: what lines want copies of, as the planner of transfers has it, and the nodes that may get them."""

from collections.abc import Collection, Iterable, Mapping

from ringrift.cluster.roster import NodeRecord
from ringrift.jobs import Train
from ringrift.kernel.transfer_settings import Replicas
from ringrift.pipeline.line import Line, needed_blobs
from ringrift.store.records import Records
from ringrift.sync.plan import Wait
from ringrift.sync.wants import PlanNode, TransferClass, Want
from ringrift.work.limits import KINDS, PLAYS

_RULES_MAX = 20  # reasons that are stored
_SITE = "site"  #: The label of a node that names its place, otherwise its machine: equal ones are near each other.


def plan_nodes(
    records: Iterable[NodeRecord], away: Collection[str] = (), hubs: Mapping[str, int | None] | None = None
) -> dict[str, PlanNode]:
    """The nodes that keep files, as the planner sees them; those *away* cannot be reached.  *hubs* with their room."""
    rooms = (hubs or {}).items()
    return {hub: PlanNode(id=hub, room=room, site=hub, reachable=room is not None) for hub, room in rooms} | {
        record.id: PlanNode(
            id=record.id,
            durable=not record.ephemeral,
            room=record.facts.disk_free_bytes or None,  # 0: not measured yet
            trains=Train.kind() in KINDS.get(record.profile, ()),
            plays=record.profile in PLAYS,
            site=record.labels.get(_SITE, record.machine),
            reachable=record.id not in away,
        )
        for record in records
        if record.has_files
    }


def want_of(
    variant: str, blob: str, kind: str, replicas: Replicas, *, size: int = 0, is_champion: bool = False
) -> Want:
    """The want for as many copies of *blob* as *replicas* say."""
    usual = TransferClass.SAMPLES if kind == "samples" else TransferClass.SECOND
    why, copies = TransferClass.CHAMPION if is_champion else usual, replicas.copies_min
    return Want(blob=blob, kind=kind, transfer_class=why, size=size, copies=copies, variant=variant)


def line_wants(lines: Iterable[Line], replicas: Replicas) -> list[Want]:
    """Copies of every file that one of *lines* needs; a file that several need is wanted once."""
    wants = {
        blob: want_of(line.variant, blob, kind, replicas, is_champion=blob == line.champion)
        for line in lines
        for blob, kind in needed_blobs(line).items()
    }
    return list(wants.values())


WAITING = Records("waiting_copies", dict[str, tuple[int, str]])
"""Under "last": why copies waited at the last look; each rule with how many of them, and one as an example."""


def summarize_waits(waits: Iterable[Wait]) -> dict[str, tuple[int, str]]:
    """How many of *waits* there are by each rule, and the first blob of it."""
    result = dict[str, tuple[int, str]]()
    for wait in waits:
        count, blob = result.get(wait.verdict.rule, (0, wait.want.blob))
        result[wait.verdict.rule] = (count + 1, blob)
    return dict(sorted(result.items(), key=lambda item: (-item[1][0], item[0]))[:_RULES_MAX])
