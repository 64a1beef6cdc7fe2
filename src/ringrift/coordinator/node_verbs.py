"""The verbs of an operator about nodes: list, cordon, drain, remove, label, and tokens for new ones.

They need no more than a store, so that a command carries out the same functions on the store of its own machine.
"""

from collections import Counter

from ringrift.cluster.activity import Activity
from ringrift.cluster.keys import (
    KEYS,
    TOKEN_SECONDS,
    WORKER,
    JoinToken,
    StoredKey,
    require_key,
    revoke_key,
    store_keys,
    store_token,
)
from ringrift.cluster.liveness import stored_states
from ringrift.cluster.placement import NODE_LABELS, merge_labels, set_labels
from ringrift.cluster.roster import NODES, NodeRecord, NodeState
from ringrift.coordinator.roster_verbs import record_left
from ringrift.coordinator.verbs import AdminParts, Peer, Verb
from ringrift.events.node import KeyChanged
from ringrift.jobs import JOB_KINDS
from ringrift.kernel.errors import InputError, InvalidPayload, UnknownName, printable, require_name, require_range
from ringrift.kernel.value import Value, changed
from ringrift.store.ports import Reads, Tx
from ringrift.wire.connection import Nothing
from ringrift.wire.keys import make_token, secret_rng
from ringrift.work.run_states import RUNNING, load_run_states, set_run_state

_PAGE = 200  # nodes of one answer
_TEXT_CHARACTERS_MAX = 200
_LABELS_MAX = 64
_TOKEN_SECONDS_MAX = 7 * 86_400.0
_KEY_SECONDS_MAX = 3650 * 86_400.0
_STATES = {"cordon": "paused", "drain": "draining", "uncordon": RUNNING}
ACTIONS = (*_STATES, "remove", "rotate")
_SOURCE = "nodes"
_NO_REPORT = "has not reported"


class ListNodes(Value):
    """`nodes.list`: the nodes after *after*, without those that were removed unless *removed*; or only *node*."""

    node: str = ""
    after: str = ""
    removed: bool = False


class NodeRow(Value):
    """A node or a program as an operator sees it."""

    id: str
    state: str  #: Of :class:`ringrift.cluster.roster.NodeState`, or _NO_REPORT.
    profile: str = ""  #: Empty for a program.
    run_state: str = RUNNING
    reason: str = ""  #: Of the run state.
    record: NodeRecord | None = None  #: Without its activity.
    labels: dict[str, str] = {}
    jobs: int = 0  #: That it holds.
    has_key: bool = False  #: Whether it is reached over the wire; otherwise it has the store.
    scopes: tuple[str, ...] = ()
    key: str = ""  #: What is wrong with its key: revoked, expired, shared.
    expires: float | None = None


class NodeRows(Value):
    """Up to _PAGE nodes by id; *is_last* unless more follow."""

    rows: tuple[NodeRow, ...]
    is_last: bool = True


class ChangeNode(Value):
    """`nodes.change`: one of ACTIONS."""

    node: str
    action: str
    reason: str = ""


class LabelNode(Value):
    """`nodes.label`: set labels; an empty one goes."""

    node: str
    labels: dict[str, str]


class MakeToken(Value):
    """`nodes.token`: a token by which one key is added."""

    scopes: tuple[str, ...] = WORKER
    node: str = ""
    labels: dict[str, str] = {}
    seconds: float = TOKEN_SECONDS
    key_seconds: float | None = None


class MadeToken(Value):
    """The token, which is shown once."""

    token: str
    scopes: tuple[str, ...]
    expires: float

    def __repr__(self) -> str:
        return f"MadeToken(scopes={self.scopes!r}, expires={self.expires!r})"


async def _list(_: Peer, body: ListNodes, parts: AdminParts) -> NodeRows:
    now = parts.clock.now()
    async with parts.store.read() as view:
        records, keys = await NODES.scan(view), await KEYS.scan(view)
        removed = set() if body.removed else {key.node for key in keys.values() if key.revoked}
        ids = [id for id in sorted({*records, *keys} - removed) if id > body.after]
        if body.node:
            require_name("node", body.node, {*records, *keys})
            ids = [body.node]
        page = ids[:_PAGE]
        states = await stored_states(view, [records[id] for id in page if id in records])
        labels, run_states = await NODE_LABELS.get_many(view, page), await load_run_states(view)
        jobs = Counter[str]()
        for count in await view.job_counters("claimed", JOB_KINDS):
            jobs[count.holder] += count.count
    rows = list[NodeRow]()
    for id in page:
        run = run_states.current(f"node:{id}", now)
        row = NodeRow(id=id, state=states.get(id, _NO_REPORT), run_state=run.state, reason=run.reason, jobs=jobs[id])
        if (record := records.get(id)) is not None:
            row = changed(row, record=changed(record, activity=Activity()), profile=record.profile)
        if (key := keys.get(id)) is not None:
            facts = {"profile": key.profile, "scopes": key.scopes, "expires": key.expires}
            row = changed(row, has_key=True, key=_problem(key, now), **facts)
        rows.append(changed(row, labels=merge_labels(record.labels if record else {}, labels.get(id))))
    return NodeRows(rows=tuple(rows), is_last=len(ids) <= _PAGE)


def _problem(key: StoredKey, now: float) -> str:
    """What is wrong with *key*, for people; empty: nothing."""
    if key.revoked:
        return f"revoked: {key.revoked}"
    if not key.is_in_force(now):
        return "expired"
    if key.shared:
        return f"used by two processes, no work until it is replaced: {key.shared}"
    return "to be replaced" if key.rotate else ""


async def _change(peer: Peer, body: ChangeNode, parts: AdminParts) -> Nothing:
    require_name("action", body.action, ACTIONS)
    reason = printable(body.reason, _TEXT_CHARACTERS_MAX)
    async with parts.store.begin() as tx:
        await _require_node(tx, body.node)
        if body.action in _STATES:
            scope, state = f"node:{body.node}", _STATES[body.action]
            facts = {"scope": scope, "state": state, "reason": reason, "by": peer.node}
            await set_run_state(tx, parts.envelopes, now=parts.clock.now(), **facts)
        elif body.action == "rotate":
            key = await require_key(tx, body.node)
            await store_keys(tx, [changed(key, rotate=True)])
        else:
            await _remove(tx, body.node, reason, peer.node, parts)
    return Nothing()


async def _remove(tx: Tx, node: str, reason: str, by: str, parts: AdminParts) -> None:
    """Refuse the key of *node* at once, and count it as left; what it did stays.  Raises InputError."""
    record = await NODES.get(tx, node)
    if await KEYS.get(tx, node) is None and record is not None and not record.gone:
        state = (await stored_states(tx, [record]))[node]
        if state is not NodeState.LOST:
            raise InputError(f"node {node} runs on the store itself and has no key to revoke: stop its process instead")
    if await revoke_key(tx, node, reason or f"removed by {by}"):
        revoked = KeyChanged(node=node, change="revoked", by=by)
        await tx.append([parts.envelopes.make(revoked, source=_SOURCE)])
    await record_left(tx, node, parts)


async def _label(_: Peer, body: LabelNode, parts: AdminParts) -> Nothing:
    _require_labels(body.labels)
    async with parts.store.begin() as tx:
        await _require_node(tx, body.node)
        await set_labels(tx, body.node, body.labels)
    return Nothing()


async def _require_node(view: Reads, node: str) -> None:
    if await NODES.get(view, node) is None and await KEYS.get(view, node) is None:
        raise UnknownName("node", node, {*await NODES.scan(view), *await KEYS.scan(view)})


def _require_labels(labels: dict[str, str]) -> None:
    texts = [*labels, *labels.values()]
    if len(labels) > _LABELS_MAX or any(not text.isprintable() or len(text) > _TEXT_CHARACTERS_MAX for text in texts):
        limit = f"at most {_LABELS_MAX} of up to {_TEXT_CHARACTERS_MAX} printable characters"
        raise InvalidPayload("labels", limit)


async def _make_token(peer: Peer, body: MakeToken, parts: AdminParts) -> MadeToken:
    require_range("--for", body.seconds, 1.0, _TOKEN_SECONDS_MAX)
    if body.key_seconds is not None:
        require_range("--key-for", body.key_seconds, 1.0, _KEY_SECONDS_MAX)
    _require_labels(body.labels)
    now = parts.clock.now()
    token = make_token(secret_rng(parts.clock, parts.rng))
    terms = JoinToken(
        id="",
        digest=b"",
        scopes=body.scopes,
        expires=now + body.seconds,
        node=body.node,
        labels=body.labels,
        key_seconds=body.key_seconds,
    )
    async with parts.store.begin() as tx:
        row = await store_token(tx, token, terms, now)
    return MadeToken(token=token, scopes=row.scopes, expires=row.expires)


VERBS = (
    Verb("nodes.list", ListNodes, NodeRows, "read administer", _list),
    Verb("nodes.change", ChangeNode, Nothing, "administer", _change, writes=True),
    Verb("nodes.label", LabelNode, Nothing, "administer", _label, writes=True),
    Verb("nodes.token", MakeToken, MadeToken, "administer", _make_token, writes=True),
)
