"""The documented bootstrap: makes this program a node and starts its coordinators layer by layer."""

import asyncio
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from ringrift.daemons import DAEMONS
from ringrift.kernel.errors import SupervisionError, require_name
from ringrift.kernel.health import Status
from ringrift.node import Node
from ringrift_compat import embedded_host
from ringrift_compat.coordinators.registry import COORDINATOR_REGISTRY, FLAGS, CoordinatorSpec
from ringrift_compat.daemons.duties import ALWAYS
from ringrift_compat.embedded_node import EmbeddedNode, embedded

_STATUS = "bootstrap"
RUNNING, DISABLED, ABSENT, SKIPPED, FAILED = "running", "disabled", "absent", "skipped", "failed"
_STOPPED = "stopped"


def bootstrap_coordination(*, auto_trigger_pipeline: bool | None = None, **flags: bool) -> dict[str, Any]:
    """Start every coordinator that is built, if it does not run; the status.

    A second call changes only what *flags* say.  Raises UnknownName for an unknown flag.
    """
    for flag in flags:
        require_name("flag", flag, FLAGS)
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
    """The state of every coordinator now; not initialised if the node is closed or there was no bootstrap.

    A coordinator is ``initialized`` while the daemon that does its duty runs, and ``subscribed`` while one of its
    daemons gets events on this node; a part of every node reads the store instead and is not.
    """
    empty: dict[str, Any] = {"initialized": False, "started_at": None, "completed_at": None, "coordinators": {}}
    empty |= {"errors": [], "auto_trigger_pipeline": False}
    node = embedded.node() if embedded.is_open else None
    host = None if node is None else embedded_host.get_host(node)
    if node is None or host is None or _STATUS not in node.extensions:
        return empty
    status: dict[str, Any] = node.extensions[_STATUS]
    states = {name: _measure(host, COORDINATOR_REGISTRY[name], state) for name, state in status["coordinators"].items()}
    errors = [f"{name}: {state['error']}" for name, state in states.items() if state["status"] in (FAILED, SKIPPED)]
    return status | {"coordinators": states, "errors": errors}


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
    status = {"initialized": True, "started_at": started, "completed_at": _now(node), "coordinators": states}
    node.extensions[_STATUS] = status | {"auto_trigger_pipeline": automatic}


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
        if states[spec.name]["status"] == RUNNING:
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
    missing = [name for name in spec.needs if states[name]["status"] != RUNNING and not _is_off(states[name])]
    return _state(SKIPPED, f"it needs {missing[0]}, which is {states[missing[0]]['status']}") if missing else None


async def _start(host: Node, spec: CoordinatorSpec) -> dict[str, Any]:
    """Start the daemons of *spec* that the settings allow; its state."""
    off = [name for name in spec.daemons if name in host.settings.node.disabled_daemons]
    try:
        for name in spec.daemons:
            if name not in off:
                await host.supervisor.start(name)
    except SupervisionError as error:
        return _state(FAILED, str(error))
    if not off:
        return _measure(host, spec, _state(RUNNING))
    reason = f"off by settings (node.disabled_daemons, RINGRIFT_EXTRACTED_LOOPS): {', '.join(off)}"
    return _measure(host, spec, _state(DISABLED if spec.daemons[0] in off else RUNNING, reason) | {"off": off})


def _measure(host: Node, spec: CoordinatorSpec, state: Mapping[str, Any]) -> dict[str, Any]:
    """*state* with what its daemons do now: one that was started may have failed or been stopped since."""
    result = dict(state)
    if state["status"] != RUNNING:
        return result
    names = [name for name in spec.daemons if name not in state.get("off", ())]
    reports = [host.supervisor.status(name) for name in names]
    broken = [report for report in reports if report.health.status is Status.UNHEALTHY]
    stopped = [report.name for report in reports if not report.should_run]
    if broken:
        result |= _state(FAILED, f"{broken[0].name}: {broken[0].health.reason}")
    elif stopped:
        result |= _state(_STOPPED, f"{', '.join(stopped)} was stopped")
    specs = [host.supervisor.spec(report.name) for report in reports if report.state == "running"]
    subscribed = any(daemon.on and (daemon.role is None or host.roles.holds(daemon.role)) for daemon in specs)
    return result | {"subscribed": subscribed}


def _is_off(state: Mapping[str, Any]) -> bool:
    """Whether the settings of the node keep a coordinator from its duty: those that need it do what they can."""
    return state["status"] == DISABLED and "off" in state


def _state(status: str, error: str | None = None) -> dict[str, Any]:
    return {"initialized": status == RUNNING, "subscribed": False, "error": error, "status": status}


def _now(node: EmbeddedNode) -> datetime:
    return datetime.fromtimestamp(node.clock.now(), UTC)
