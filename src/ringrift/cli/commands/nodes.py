"""List the nodes of the cluster; cordon, drain, label or remove one, and make tokens by which machines join."""

import asyncio
import getpass
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from platform import node as node_name
from random import Random, SystemRandom
from typing import TypeVar, cast

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cli.command import Command, Context, Output, Parser
from ringrift.cli.formats import duration, parse_duration, table, timestamp
from ringrift.cli.worker_home import WorkerHome
from ringrift.cluster.keys import SCOPES, WORKER
from ringrift.coordinator.node_verbs import (
    ACTIONS,
    VERBS,
    ChangeNode,
    LabelNode,
    ListNodes,
    MadeToken,
    MakeToken,
    NodeRow,
    NodeRows,
)
from ringrift.coordinator.verbs import Peer
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import InputError, SettingsError
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import Settings
from ringrift.kernel.value import Value, changed
from ringrift.store.open import store_exists
from ringrift.store.ports import Store
from ringrift.wire.connection import Connection, Nothing
from ringrift.wire.keys import load_key
from ringrift.wire.open import open_wire
from ringrift.work.run_states import RUNNING

_VERBS = ("list", "show", *ACTIONS, "label", "token")
_WITHOUT_NODE = ("list", "token")
_DONE = {
    "cordon": "gets no more jobs; those that it has go on (undo: ringrift nodes uncordon {0})",
    "drain": "finishes the jobs that it has and gets no more (undo: ringrift nodes uncordon {0})",
    "uncordon": "gets jobs again",
    "remove": "is removed: its key is refused from now on, and its jobs go to others",
    "rotate": "makes itself a new key with its next request; the old one is refused from then on",
}
_PAGES_MAX = 1_000
T = TypeVar("T", bound=Value)


def _arguments(parser: Parser) -> None:
    add = parser.add_argument
    add("verb", nargs="?", default="list", choices=_VERBS, help="default: list")
    add("node", nargs="?", help="name of the node (all but list and token)")
    add("labels", nargs="*", metavar="KEY=VALUE", help="label: what to set; KEY= deletes it")
    add("--all", action="store_true", help="list: also those that were removed")
    add("--reason", default="", metavar="TEXT", help="reason for the log")
    add("--scope", action="append", choices=SCOPES, help=f"token: may be repeated (default: {', '.join(WORKER)})")
    add(
        "--node",
        dest="only_node",
        default="",
        metavar="ID",
        help="token: for this node alone; it may replace its key",
    )
    add("--label", action="append", default=[], metavar="KEY=VALUE", help="token: label of the node that joins by it")
    add("--for", dest="duration", default="15m", metavar="TIME", help="token: how long it is valid (default: 15m)")
    add("--key-for", dest="key_duration", metavar="TIME", help="token: how long the key is valid (default: for good)")
    add("--out", metavar="FILE", help="token: write it to this file, which others cannot read (default: print it)")
    add("--url", metavar="URL", help="ask this coordinator (default: the store of this home, else where it has joined)")


@dataclass(frozen=True, slots=True)
class _LocalParts:
    """What the verbs need, on the store of this machine."""

    settings: Settings
    clock: Clock
    rng: Random
    store: Store
    envelopes: EnvelopeFactory


class _Local:
    """Carries out verbs on the store of this machine."""

    def __init__(self, context: Context) -> None:
        self._parts = _LocalParts(context.settings, context.clock, SystemRandom(), context.store, context.envelopes())
        self._verbs = {verb.name: verb for verb in VERBS}

    async def call(self, verb: str, body: Value, answer: type[T]) -> T:
        peer = Peer(node=getpass.getuser(), scopes=frozenset({"administer"}))
        return cast("T", await self._verbs[verb].run(peer, body, self._parts))  # type: ignore[arg-type]  # these verbs need no more


_Desk = _Local | Connection


async def _rows(desk: _Desk, node: str = "", *, removed: bool = False) -> list[NodeRow]:
    rows = list[NodeRow]()
    for _ in range(_PAGES_MAX):
        body = ListNodes(node=node, after=rows[-1].id if rows else "", removed=removed)
        answer = await desk.call("nodes.list", body, NodeRows)
        rows += answer.rows
        if answer.is_last:
            break
    return rows


def _state(row: NodeRow) -> str:
    return row.state if row.run_state == RUNNING else f"{row.state}, {row.run_state}"


def _labels(row: NodeRow) -> str:
    return " ".join(f"{name}={text}" for name, text in sorted(row.labels.items()))


def _machine(row: NodeRow) -> str:
    if row.record is None:
        return ""
    facts, gpus = row.record.facts, [gpu.name for gpu in row.record.facts.gpus]
    memory = f"{facts.memory_bytes / 2**30:.0f} GB" if facts.memory_bytes else ""
    return ", ".join(filter(None, (f"{facts.cores or row.record.cores} cores", memory, *gpus)))


async def _list(context: Context, desk: _Desk) -> Output:
    rows = await _rows(desk, removed=context.options.all)
    head = ("node", "state", "profile", "jobs", "machine", "key", "labels")
    lines = []
    for row in rows:
        key = row.key or (", ".join(row.scopes) if row.has_key else "has the store")
        lines.append((row.id, _state(row), row.profile or "program", row.jobs, _machine(row), key, _labels(row)))
    empty = "no node has joined: start one with  ringrift run,  or make a token with  ringrift nodes token"
    return Output(value=rows, text=table(head, lines, empty))


async def _show(context: Context, desk: _Desk) -> Output:
    [row] = await _rows(desk, context.options.node)
    key = row.key or ("in force" if row.has_key else "none: it has the store")
    lines = [f"node {row.id}: {_state(row)}" + (f" ({row.reason})" if row.reason else "")]
    lines += [f"key: {key}"] + ([f"may: {', '.join(row.scopes)}"] if row.has_key else [])
    if row.expires is not None:
        lines.append(f"its key is valid until {timestamp(row.expires)}")
    lines += [f"labels: {_labels(row) or 'none'}", f"jobs: {row.jobs}"]
    if row.record is not None:
        facts = row.record.facts
        lines.append(f"machine: {row.record.machine} ({_machine(row)}), profile {row.record.profile}")
        versions = ", ".join(f"{name} {text}" for name, text in sorted(facts.versions.items()))
        lines.append(f"workloads: {', '.join(facts.workloads or ()) or 'not named'}; {versions or 'not measured yet'}")
    return Output(value=row, text="\n".join(lines))


async def _change(context: Context, desk: _Desk) -> Output:
    options = context.options
    await desk.call("nodes.change", ChangeNode(node=options.node, action=options.verb, reason=options.reason), Nothing)
    text = f"node {options.node} {_DONE[options.verb].format(options.node)}"
    return Output(value={"node": options.node, "action": options.verb}, text=text)


async def _label(context: Context, desk: _Desk) -> Output:
    node, labels = context.options.node, _pairs("label", context.options.labels)
    await desk.call("nodes.label", LabelNode(node=node, labels=labels), Nothing)
    [row] = await _rows(desk, node)
    return Output(value={"node": node, "labels": row.labels}, text=f"node {node}: {_labels(row) or 'no labels'}")


async def _token(context: Context, desk: _Desk) -> Output:
    options = context.options
    body = MakeToken(
        scopes=tuple(options.scope or WORKER),
        node=options.only_node,
        labels=_pairs("--label", options.label),
        seconds=_seconds("--for", options.duration) or 0.0,
        key_seconds=_seconds("--key-for", options.key_duration),
    )
    made = await desk.call("nodes.token", body, MadeToken)
    left = duration(made.expires - context.clock.now())
    hint = f"for one key with {', '.join(made.scopes)}; valid for {left}"
    value = {"scopes": made.scopes, "expires": made.expires}
    if options.out:
        _write_secret(Path(options.out), made.token)
        usage = f"on the machine that joins:  ringrift join URL --token-file {options.out}"
        return Output(value={**value, "file": options.out}, text=f"token in {options.out}: {hint}\n{usage}")
    print(f"ringrift: {hint}; on the machine that joins:  ringrift join URL --token-file -", file=sys.stderr)
    return Output(value={**value, "token": made.token}, text=made.token)


def _write_secret(path: Path, text: str) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise SettingsError("--out", str(path), f"cannot write a new file there: {error.strerror}") from error
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{text}\n")


def _pairs(option: str, texts: list[str]) -> dict[str, str]:
    for text in texts:
        if text.find("=") < 1:
            raise SettingsError(option, text, "must be KEY=VALUE")
    return {key: value for key, _, value in (text.partition("=") for text in texts)}


def _seconds(option: str, text: str | None) -> float | None:
    if text is None:
        return None
    if not (seconds := parse_duration(text)):
        raise SettingsError(option, text, "use a number and s, m, h or d: 90s, 15m, 2h, 1d")
    return seconds


async def _answer(context: Context, desk: _Desk) -> Output:
    verbs = {"list": _list, "show": _show, "label": _label, "token": _token}
    return await verbs.get(context.options.verb, _change)(context, desk)


async def _ask_remote(context: Context, home: WorkerHome, addresses: tuple[str, ...]) -> Output:
    wire_settings, rng = context.settings.wire, SystemRandom()
    if not wire_settings.ca and home.ca.exists():
        wire_settings = changed(wire_settings, ca=str(home.ca))
    key, _ = load_key(home.key_path)
    wire = open_wire(wire_settings)
    boot = Ids(context.clock, rng).next()
    connection = Connection(wire, addresses, key, rng, boot=boot, machine=node_name(), key_path=home.key_path)
    try:
        return await _answer(context, connection)
    finally:
        await connection.close()
        wire.close()


def _prepare(context: Context) -> Output | None:
    options, settings = context.options, context.settings
    if options.verb not in _WITHOUT_NODE and not options.node:
        raise InputError(f"name the node:  ringrift nodes {options.verb} NODE  (ringrift nodes  lists them)")
    if options.verb == "label" and not options.labels:
        raise InputError("name the labels:  ringrift nodes label NODE KEY=VALUE  (KEY= deletes it)")
    for option, texts in (("label", options.labels), ("--label", options.label)):
        _pairs(option, texts)
    home = WorkerHome(context.effective.home)
    membership = home.membership()
    if not options.url and (store_exists(settings.store) or membership is None):
        return None
    if membership is not None and membership.profile:
        remedy = "use a home of its own:  ringrift join URL --program --token-file FILE"
        raise SettingsError("RINGRIFT_HOME", context.effective.home, f"its key is that of a worker; {remedy}")
    addresses = (options.url,) if options.url else membership.addresses if membership else ()
    return asyncio.run(_ask_remote(context, home, addresses))


async def _question(context: Context) -> Output:
    return await _answer(context, _Local(context))


COMMAND = Command(arguments=_arguments, prepare=_prepare, question=_question)
