"""The documented bootstrap: makes this program a node, starts its coordinators layer by layer, tells how each is."""

import asyncio
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from ringrift.daemons import DAEMONS
from ringrift.kernel.errors import SupervisionError, UnknownName
from ringrift.kernel.health import Status
from ringrift.node import Node
from ringrift_compat import hosting
from ringrift_compat.ambient import Embedded, ambient
from ringrift_compat.coordinators import COORDINATOR_REGISTRY, FLAGS, CoordinatorSpec

KEPT = "bootstrap"
RUNNING, DISABLED, ABSENT, SKIPPED, FAILED = "running", "disabled", "absent", "skipped", "failed"


def bootstrap_coordination(*, auto_trigger_pipeline: bool | None = None, **flags: bool) -> dict[str, Any]:
    """Start every coordinator whose duty is built, if it does not run; the status.

    A second time changes nothing but what *flags* say.  Raises UnknownName for a flag that nobody knows.
    """
    for flag in flags:
        if flag not in FLAGS:
            raise UnknownName("flag", flag, FLAGS)
    disabled = frozenset(FLAGS[flag] for flag, wanted in flags.items() if not wanted)
    ambient.call(_bootstrap(ambient.node(), disabled, auto_trigger_pipeline))
    return get_bootstrap_status()


def initialize_all_coordinators(auto_trigger_pipeline: bool | None = None, **flags: bool) -> dict[str, Any]:
    """As :func:`bootstrap_coordination`; the status, with the names of those that run under ``_instances``.

    Whether one stage starts the next: as said here, else by COORDINATOR_AUTO_TRIGGER_PIPELINE, else not.
    """
    status = bootstrap_coordination(auto_trigger_pipeline=auto_trigger_pipeline, **flags)
    there = [name for name, state in status["coordinators"].items() if state["initialized"]]
    return status | {"_instances": there}


def get_bootstrap_status() -> dict[str, Any]:
    """What the bootstrap came to; not initialised if the node is closed or was never asked for."""
    empty: dict[str, Any] = {
        "initialized": False, "started_at": None, "completed_at": None, "coordinators": {}, "errors": [],
        "auto_trigger_pipeline": False,
    }  # fmt: skip
    found = ambient.node().kept.get(KEPT, empty) if ambient.is_open else empty
    return dict(found)


def shutdown_coordination() -> None:
    """Close the ambient node; the next use opens it again on the same store."""
    ambient.shutdown()


async def shutdown_all_coordinators() -> None:
    """As :func:`shutdown_coordination`, without keeping the loop."""
    ambient.require_elsewhere("shutdown_all_coordinators")
    await asyncio.to_thread(ambient.shutdown)


async def _bootstrap(node: Embedded, disabled: Collection[str], automatic: bool | None) -> None:
    before: dict[str, Any] = node.kept.get(KEPT, {})
    if automatic is None:
        automatic = hosting.is_automatic(node)
    began = before.get("started_at") or _now(node)
    await hosting.be_automatic(node, automatic)
    whole = await hosting.host(node)
    states = await _start(whole, disabled)
    if automatic:
        # Somebody must do the jobs of the loop and look after it, and perhaps nobody else is there.
        await hosting.duties(node, *_unnamed(node))
    await hosting.let_go(node)
    errors = [f"{name}: {state['error']}" for name, state in states.items() if state["status"] in (FAILED, SKIPPED)]
    node.kept[KEPT] = {
        "initialized": True, "started_at": began, "completed_at": _now(node), "coordinators": states,
        "errors": errors, "auto_trigger_pipeline": automatic,
    }  # fmt: skip


def _unnamed(node: Embedded) -> list[str]:
    """The daemons of a node of these settings that run for no coordinator."""
    named = {name for spec in COORDINATOR_REGISTRY.values() for name in spec.daemons}
    mine = (daemon.name for daemon in DAEMONS if node.settings.node.profile in daemon.profiles)
    return [name for name in mine if name not in named]


async def _start(whole: Node, disabled: Collection[str]) -> dict[str, dict[str, Any]]:
    """Start each coordinator behind those that it needs, and stop what only disabled ones had run."""
    states: dict[str, dict[str, Any]] = {}
    used: set[str] = set(hosting.ALWAYS)
    for spec in sorted(COORDINATOR_REGISTRY.values(), key=lambda spec: spec.layer):
        states[spec.name] = _waits(spec, disabled, states) or await _begun(whole, spec)
        if states[spec.name]["initialized"]:
            used.update(spec.daemons)
    for name in disabled:
        for daemon in set(COORDINATOR_REGISTRY[name].daemons) - used:
            await whole.supervisor.stop(daemon)
    return states


def _waits(
    spec: CoordinatorSpec, disabled: Collection[str], states: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any] | None:
    """The state of one that is not to be started; None if it is."""
    if spec.name in disabled:
        return _state(DISABLED) | ({"goes_on": spec.without} if spec.without else {})
    if spec.later:
        return _state(ABSENT, spec.later)
    if spec.skipped:
        return _state(ABSENT, spec.skipped)
    missing = [name for name in spec.needs if not states[name]["initialized"]]
    return _state(SKIPPED, f"it needs {missing[0]}, which is {states[missing[0]]['status']}") if missing else None


async def _begun(whole: Node, spec: CoordinatorSpec) -> dict[str, Any]:
    try:
        for name in spec.daemons:
            await whole.supervisor.start(name)
    except SupervisionError as wrong:
        return _state(FAILED, str(wrong))
    found = [whole.supervisor.report(name).health for name in spec.daemons]
    broken = [health for health in found if health.status is Status.UNHEALTHY]
    return _state(FAILED, f"{broken[0].part}: {broken[0].reason}") if broken else _state(RUNNING)


def _state(status: str, error: str | None = None) -> dict[str, Any]:
    runs = status == RUNNING
    return {"initialized": runs, "subscribed": runs, "error": error, "status": status}


def _now(node: Embedded) -> datetime:
    return datetime.fromtimestamp(node.clock.now(), UTC)
