"""Placement: whether a node fits a job, by what the node has reported about itself, and the reason where it does not.

What jobs of a kind ask for is set by ``work.requires``: a device, memory, and labels for everything else.
"""

from collections.abc import Iterable, Mapping

from ringrift.cluster.facts import NodeFacts
from ringrift.kernel.settings import REQUIRED_GB, Requirement
from ringrift.kernel.value import Value, changed
from ringrift.store.ports import Reads, Tx
from ringrift.store.records import Records

_GB = 1e9
_LABELS_MAX = 64  # of one node
UNKNOWN = "it has not reported yet what it can run"


class Offer(Value):
    """What a claim needs of a node's record, which the roster writes."""

    id: str
    facts: NodeFacts = NodeFacts()
    labels: dict[str, str] = {}


_OFFERS = Records("node", Offer, id="id")
NODE_LABELS = Records("node_labels", dict[str, str])  # by node: those that an operator has set; they win


async def load_offer(view: Reads, node: str) -> Offer | None:
    """What *node* has reported, with the labels that an operator gave it; None if it never has."""
    offer, labels = await _OFFERS.get(view, node), await NODE_LABELS.get(view, node)
    return changed(offer, labels=merge_labels(offer.labels, labels)) if offer and labels else offer


def merge_labels(own: Mapping[str, str], set_by_operator: Mapping[str, str] | None) -> dict[str, str]:
    """The labels of a node; an empty one of the operator takes that label away."""
    return {name: text for name, text in {**own, **(set_by_operator or {})}.items() if text}


async def set_labels(tx: Tx, node: str, labels: Mapping[str, str]) -> None:
    """Give *node* these labels beside those it has; an empty one goes.  The node's own change only by its settings."""
    merged = {**(await NODE_LABELS.get(tx, node) or {}), **labels}
    await NODE_LABELS.put_at(tx, {node: dict(list(merged.items())[-_LABELS_MAX:])})


def missing_workloads(offer: Offer | None, workloads: Iterable[str]) -> dict[str, str]:
    """Those of *workloads* that the node cannot run by its own report, with the reason."""
    runnable = offer.facts.workloads if offer else None
    return {} if runnable is None else {name: "it is not installed there" for name in workloads if name not in runnable}


def find_misfit(offer: Offer | None, required: Requirement) -> str:
    """Why the node does not fit what is *required*; empty if it does."""
    if not required:
        return ""
    if offer is None or not offer.facts.is_measured:
        return UNKNOWN
    return next(filter(None, (_misfit(offer, name, value) for name, value in required.items())), "")


def _misfit(offer: Offer, name: str, value: str | float) -> str:
    facts = offer.facts
    if name == "device":
        return _device_misfit(facts, str(value))
    if name in REQUIRED_GB:
        gpu = max((gpu.memory_bytes for gpu in facts.gpus), default=0)
        amounts = {"memory_gb": facts.memory_bytes, "gpu_memory_gb": gpu, "disk_gb": facts.disk_free_bytes}
        amount, needed = amounts[name] / _GB, float(value)
        what = name.removesuffix("_gb").replace("_", " ").replace("disk", "free disk")
        return f"it has {amount:.3g} GB of {what}, {needed:g} GB are needed" if amount < needed else ""
    text = offer.labels.get(name)
    return "" if text == str(value) else f"its label {name} is {text or 'not set'}, {value} is needed"


def _device_misfit(facts: NodeFacts, device: str) -> str:
    if device == "cpu" or any(device in ("gpu", "cuda") or device in gpu.name.lower() for gpu in facts.gpus):
        return ""
    names = ", ".join(sorted({gpu.name for gpu in facts.gpus})) or "no GPU"
    return f"it has {names}, {device} is needed"
