"""List the daemons of every node with their state and health; start, stop, restart or clear one."""

from collections.abc import Mapping
from typing import Any

from ringrift.cli.command import EXIT_FAILED, Command, Context, Output, Parser
from ringrift.cli.formats import ago, table
from ringrift.cli.presence import Presence, observe
from ringrift.cluster import daemon_commands
from ringrift.cluster.daemon_summary import DaemonSummary
from ringrift.cluster.roster import NodeRecord
from ringrift.daemons.run_commands import NAME as RUN_COMMANDS
from ringrift.events import catalog
from ringrift.events.base import Envelope
from ringrift.events.daemon import CommandDone, CommandIssued
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import InputError, NodeAway, SupervisionError, UnknownName
from ringrift.store.follow import PAGE, wait_for
from ringrift.store.ports import Reads, Store
from ringrift.supervision.spec import CATEGORIES

_ANSWER_SECONDS_MAX = 10.0
_HEAD = ("category", "daemon", "state", "health", "since", "runs", "failures", "restarts", "why", "last error")
_NO_NODE = 'no running node: start one with "ringrift run"'
_DONE = {"start": "started", "stop": "stopped", "restart": "restarted", "clear": "cleared"}


def _arguments(parser: Parser) -> None:
    text = "default: list; clear: start a failed one again"
    parser.add_argument("verb", nargs="?", default="list", choices=("list", *daemon_commands.ACTIONS), help=text)
    parser.add_argument("name", nargs="?", help="start, stop, restart, clear: name of the daemon")
    parser.add_argument("--node", metavar="ID", help="only this node; needed if several nodes have the daemon")


def _as_text(presence: Presence, now: float) -> str:
    parts = [f"node {node.id} ({node.profile})\n{_table(node.activity.daemons, now)}" for node in presence.present]
    if presence.silent:
        parts.append(f"no heartbeat for {presence.seconds:g} s: {', '.join(node.id for node in presence.silent)}")
    return "\n\n".join(parts if presence.present else [_NO_NODE, *parts])


def _table(summary: DaemonSummary, now: float) -> str:
    """The daemons of a node by category, each category named once."""
    rows, category = [], ""
    order = {name: place for place, name in enumerate(CATEGORIES)}  # those of a newer version come last
    for status in sorted(summary.statuses, key=lambda row: (order.get(row.category, len(order)), row.category)):
        health, title = status.health, "" if status.category == category else status.category
        since = "—" if health.since is None else ago(health.since, now)
        counts, category = (status.runs, status.failures, status.restarts), status.category
        texts = (" ".join(text.split()) or "—" for text in (health.reason, status.last_error))
        rows.append((title, status.name, status.state, health.status.name.lower(), since, *counts, *texts))
    text = table(_HEAD, rows, "reports no daemons")
    return f"{text}\n… and {summary.more} more" if summary.more else text


def _as_tree(presence: Presence) -> Mapping[str, Any]:
    nodes, names = [], ("name", "category", "critical", "state", "runs", "failures", "restarts")
    for node in presence.present:
        daemons = []
        for status in node.activity.daemons.statuses:
            health = status.health
            texts = {"status": health.status.name.lower(), "reason": health.reason, "since": health.since}
            daemons.append({name: getattr(status, name) for name in names} | texts | {"error": status.last_error})
        more = node.activity.daemons.more
        nodes.append({"node": node.id, "profile": node.profile, "daemons": daemons, "more": more})
    return {"nodes": nodes, "silent": [node.id for node in presence.silent]}


def _node_with(presence: Presence, daemon: str, node: str | None) -> NodeRecord:
    """The node for a command to *daemon*.  Raises UnknownName, NodeAway, or InputError if several nodes have it."""
    nodes = presence.only(node).present
    if not nodes:
        raise SupervisionError(_NO_NODE) if node is None else NodeAway(node)
    summaries = {record.id: record.activity.daemons for record in nodes}
    candidates = [node for node in nodes if daemon in summaries[node.id].names() or summaries[node.id].more]
    if not candidates:
        raise UnknownName("daemon", daemon, {name for summary in summaries.values() for name in summary.names()})
    if len(candidates) > 1:
        raise InputError(f"several nodes have daemon {daemon}: add --node {' | '.join(node.id for node in candidates)}")
    [target] = candidates
    statuses = {status.name: status for status in target.activity.daemons.statuses}
    if RUN_COMMANDS not in statuses or statuses[RUN_COMMANDS].state != "running":
        raise SupervisionError(f"node {target.id} accepts no commands: its daemon {RUN_COMMANDS} is not running")
    return target


async def _wait_done(store: Store, command: Envelope, clock: Clock) -> CommandDone | None:
    """The result of *command*; None if it was not carried out in time."""

    async def result(view: Reads) -> CommandDone | None:
        rows = await view.read(command.position, PAGE, [CommandDone.name()])
        events = (catalog.decode(row.name, row.body) for row in rows)
        return next((e for e in events if isinstance(e, CommandDone) and e.command == command.id), None)

    return await wait_for(store, result, clock, _ANSWER_SECONDS_MAX)


def _result_text(done: CommandDone | None, name: str, action: str) -> str:
    if done is None:
        late = f"it has not {_DONE[action]} after {_ANSWER_SECONDS_MAX:g} s (still waiting: ringrift daemons)"
        return f'asked daemon "{name}" to {action}; {late}'
    if done.error:
        return f"daemon {done.daemon} on {done.node} could not {action}: {done.error}"
    return f"daemon {done.daemon} on {done.node}: {_DONE[action]}"


def _prepare(context: Context) -> None:
    verb, name = context.options.verb, context.options.name
    if verb != "list" and not name:
        raise InputError(f"name the daemon:  ringrift daemons {verb} NAME  (ringrift daemons  lists them)")


async def _question(context: Context) -> Output:
    """Exit code 1 if no node runs, or if the command was not carried out."""
    options, store, clock = context.options, context.store, context.clock
    presence = await observe(store, clock, context.settings.cluster.beat_seconds)
    if options.verb == "list":
        presence = presence.only(options.node)
        code = 0 if presence.present else EXIT_FAILED
        return Output(value=_as_tree(presence), text=_as_text(presence, clock.now()), code=code)
    target = _node_with(presence, options.name, options.node)
    event = CommandIssued(daemon=options.name, node=target.id, action=options.verb, by=context.settings.node.id)
    async with store.begin() as tx:
        command = await daemon_commands.issue(tx, context.envelopes(), event)
    done = await _wait_done(store, command, clock)
    code = 0 if done is not None and not done.error else EXIT_FAILED
    return Output(value=done, text=_result_text(done, options.name, options.verb), code=code)


COMMAND = Command(arguments=_arguments, prepare=_prepare, question=_question)
