"""Strategies: when and to whom files are copied ahead of need, as filters and weights on wants.

    hybrid     as many copies as asked for, first where they will be needed
    ephemeral  at once what machines that may vanish hold, and nothing else
    broadcast  every node gets everything
    pull       one durable copy; others fetch it when they need it
    auto       broadcast for models, ephemeral for what is on machines that may vanish, hybrid for the rest

They never weaken the rule about only copies: a want that a strategy holds back is still served as far as one durable
copy, and a file that a job needs now is fetched whatever the strategy.
"""

from collections.abc import Collection, Mapping, Sequence

from ringrift.kernel.value import changed
from ringrift.kernel.verdict import Verdict
from ringrift.sync.plan import GATE, Wait
from ringrift.sync.wants import PlanNode, TransferClass, Want

PUSH_SECONDS_MAX = 5.0  #: Within which a file that only ephemeral machines hold should be on a durable node.


def shape(
    wants: Sequence[Want],
    strategy: str,
    holders: Mapping[str, Collection[str]],
    nodes: Mapping[str, PlanNode],
    now: float,
) -> tuple[list[Want], list[Wait]]:
    """*wants* as *strategy* has them, and those that wait because of it."""
    shaped, waits = list[Want](), list[Wait]()
    for want in wants:
        present = [node for node in holders.get(want.blob, ()) if node in nodes and nodes[node].reachable]
        is_fleeting = bool(present) and not any(nodes[node].durable for node in present)
        result = _shape(want, _resolve(strategy, want, is_fleeting), is_fleeting, nodes, now)
        if result is None:
            rule = f"strategy {strategy}: copied when a node needs it"
            waits.append(Wait(want=want, verdict=Verdict(GATE, False, rule, len(present), max(want.copies, 1))))
        else:
            shaped.append(result)
    return shaped, waits


def _resolve(strategy: str, want: Want, is_fleeting: bool) -> str:
    if strategy != "auto":
        return strategy
    if is_fleeting:
        return "ephemeral"
    return "broadcast" if want.kind == "model" else "hybrid"


def _shape(want: Want, strategy: str, is_fleeting: bool, nodes: Mapping[str, PlanNode], now: float) -> Want | None:
    """*want* under a *strategy* that is not auto; None if it waits."""
    match strategy:
        case "ephemeral" if is_fleeting:
            return changed(want, transfer_class=TransferClass.URGENT, deadline=now + PUSH_SECONDS_MAX)
        case "pull" if is_fleeting:
            return changed(want, copies=1, target="")
        case "ephemeral" | "pull":
            return None
        case "broadcast" if not want.target:
            return changed(want, copies=sum(node.reachable for node in nodes.values()))
    return want
