"""The documented bootstrap: makes this program a node and starts its coordinators layer by layer."""

import asyncio
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from ringrift.daemons import DAEMONS
from ringrift.kernel.errors import SupervisionError, UnknownName
from ringrift.kernel.health import Status
from ringrift.node import Node
from ringrift_compat import embedded_host
from ringrift_compat.coordinators.registry import COORDINATOR_REGISTRY, FLAGS, CoordinatorSpec
from ringrift_compat.daemons.duties import ALWAYS
from ringrift_compat.embedded_node import EmbeddedNode, embedded

_STATUS = "bootstrap"
RUNNING, DISABLED, ABSENT, SKIPPED, FAILED = "running", "disabled", "absent", "skipped", "failed"


def bootstrap_coordination(*, auto_trigger_pipeline: bool | None = None, **flags: bool) -> dict[str, Any]:
    """Start every coordinator that is built, if it does not run; the status.

    A second call changes only what *flags* say.  Raises UnknownName for an unknown flag.
    """
    for flag in flags:
        if flag not in FLAGS:
            raise UnknownName("flag", flag, FLAGS)
    disabled = frozenset(FLAGS[flag] for flag, is_enabled in flags.items() if not is_enabled)
    embedded.call(_bootstrap(embedded.node(), disabled, auto_trigger_pipeline))
    return get_bootstrap_status()


def initialize_all_coordinators(auto_trigger_pipeline: bool | None = None, **flags: bool) -> dict[str, Any]:
    """As :func:`bootstrap_coordination`; the status, with the names of the running ones under ``_instances``.

    Whether one stage starts the next: *auto_trigger_pipeline*, else COORDINATOR_AUTO_TRIGGER_PIPELINE, else not.
    """
    status = bootstrap_coordination(auto_trigger_pipeline=auto_trigger_pipeline, **flags)
    return status | {"_instances": [name for name, state in status["coordinators"].items() if state["initialized"]]}


def get_bootstrap_status() -> dict[str, Any]:
    """The result of the bootstrap; not initialised if the node is closed or there was none."""
    empty: dict[str, Any] = {"initialized": False, "started_at": None, "completed_at": None, "coordinators": {}}
    empty |= {"errors": [], "auto_trigger_pipeline": False}
    return dict(embedded.node().extensions.get(_STATUS, empty)) if embedded.is_open else empty


def shutdown_coordination() -> None:
    """Close the node of this program; the next use opens it again on the same store."""
    embedded.shutdown()


async def shutdown_all_coordinators() -> None:
    """As :func:`shutdown_coordination`, without blocking the loop."""
    embedded.require_other_loop("shutdown_all_coordinators")
    await asyncio.to_thread(embedded.shutdown)


async def _bootstrap(node: EmbeddedNode, disabled: Collection[str], automatic: bool | None) -> None:
    before: dict[str, Any] = node.extensions.get(_STATUS, {})
    if automatic is None:
        automatic = embedded_host.is_automatic(node)
    started = before.get("started_at") or _now(node)
    await embedded_host.set_automatic(node, automatic)
    states = await _start_all(await embedded_host.open_host(node), disabled)
    if automatic:
        # There may be no other node that does the jobs of the loop.
        await embedded_host.start_daemons(node, *_other_daemons(node))
    await embedded_host.release_lines(node)
    errors = [f"{name}: {state['error']}" for name, state in states.items() if state["status"] in (FAILED, SKIPPED)]
    status = {"initialized": True, "started_at": started, "completed_at": _now(node), "coordinators": states}
    node.extensions[_STATUS] = status | {"errors": errors, "auto_trigger_pipeline": automatic}


def _other_daemons(node: EmbeddedNode) -> list[str]:
    """The daemons of a node of these settings that run for no coordinator."""
    named = {name for spec in COORDINATOR_REGISTRY.values() for name in spec.daemons}
    own = (daemon.name for daemon in DAEMONS if node.settings.node.profile in daemon.profiles)
    return [name for name in own if name not in named]


async def _start_all(host: Node, disabled: Collection[str]) -> dict[str, dict[str, Any]]:
    """Start each coordinator after those that it needs, and stop the daemons that only disabled ones had."""
    states: dict[str, dict[str, Any]] = {}
    used: set[str] = set(ALWAYS)
    for spec in COORDINATOR_REGISTRY.values():
        states[spec.name] = _not_started(spec, disabled, states) or await _start(host, spec)
        if states[spec.name]["initialized"]:
            used.update(spec.daemons)
    for name in disabled:
        for daemon in set(COORDINATOR_REGISTRY[name].daemons) - used:
            await host.supervisor.stop(daemon)
    return states


def _not_started(
    spec: CoordinatorSpec, disabled: Collection[str], states: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any] | None:
    """The state of a coordinator that is not to be started; None if it is."""
    if spec.name in disabled:
        return _state(DISABLED) | ({"goes_on": spec.when_disabled} if spec.when_disabled else {})
    if spec.absent:
        return _state(ABSENT, spec.absent)
    missing = [name for name in spec.needs if not states[name]["initialized"]]
    return _state(SKIPPED, f"it needs {missing[0]}, which is {states[missing[0]]['status']}") if missing else None


async def _start(host: Node, spec: CoordinatorSpec) -> dict[str, Any]:
    try:
        for name in spec.daemons:
            await host.supervisor.start(name)
    except SupervisionError as error:
        return _state(FAILED, str(error))
    healths = [host.supervisor.status(name).health for name in spec.daemons]
    broken = [health for health in healths if health.status is Status.UNHEALTHY]
    return _state(FAILED, f"{broken[0].part}: {broken[0].reason}") if broken else _state(RUNNING)


def _state(status: str, error: str | None = None) -> dict[str, Any]:
    is_running = status == RUNNING
    return {"initialized": is_running, "subscribed": is_running, "error": error, "status": status}


def _now(node: EmbeddedNode) -> datetime:
    return datetime.fromtimestamp(node.clock.now(), UTC)
