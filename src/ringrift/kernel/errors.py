"""The core's errors, as one tree.

RingriftError
├── StoreError        Unreachable · Busy · Overdue · Overtaken · Damaged · SchemaTooNew · SchemaTooOld ·
│                     UnsafeFilesystem · CopiedStore
├── LeaseLost         work, leadership and locks alike
├── NotLeader
├── TransferError     Corrupt · NoRoute · NodeAway > LinkBroken > Stalled · NoRoom · PlaceAway
├── WireError         Forbidden · KeyRefused · WireTooOld · InsecureBind
├── DeliveryError     TimedOut
├── SupervisionError  Unbound · GaveUp
├── WorkError         JobFailed · ChildDied
├── InputError        InvalidPayload · TooLarge · TooDeep · InvalidId · IdConflict · InvalidWork ·
│                     IllegalTransition · Unranked · LoopDetected
├── Backpressure
├── LimitReached
├── UnknownName       event, job, daemon, variant, workload, setting
├── NoChampion
├── MissingExtra
└── SettingsError

A leaf is named after the fact and carries it in fields: code reads fields, people read the text, which says what
happened, why, and what to do.  Only branches end in ``Error``.  Those of links are in :mod:`.wire_errors`.
Two signals that a reaction may raise on purpose stand beside the tree: ``Retry`` and ``Discard``.
"""

from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches

_NAMES_LISTED, _CLOSE_LISTED = 24, 3


class RingriftError(Exception):
    """Root of every error that RingRift raises on purpose."""


class StoreError(RingriftError):
    """The store refused or failed an operation."""


class Unreachable(StoreError):
    """The store is broken for this process: a commit failed, or the file is no database.  Waiting does not help."""


class Busy(StoreError):
    """The store cannot be used for the moment; nothing was changed, and another try can succeed."""

    def __init__(self, where: str, why: str) -> None:
        self.where, self.why = where, why
        super().__init__(f"{where}: {why}; nothing was changed")


class Overdue(StoreError):
    """A transaction or a read took too long and was ended; nothing was changed."""

    def __init__(self, seconds: float, what: str = "transaction") -> None:
        self.seconds, self.what = seconds, what
        super().__init__(f"a {what} took longer than {seconds:g} s and was ended; nothing was changed")


class Overtaken(StoreError):
    """Another process has moved the reader's position, or the events it needs have been compacted."""

    def __init__(self, reader: str, expected: int, actual: int | None) -> None:
        self.reader, self.expected, self.actual = reader, expected, actual
        lapsed = "has lapsed: `ringrift readers forget` lets it start anew"
        state = lapsed if actual is None else f"is at {actual}: another process reads under this name"
        super().__init__(f"reader {reader!r} expected to be at position {expected}, but {state}")


class Damaged(StoreError):
    """A stored record is not what was written; it is not used."""

    def __init__(self, kind: str, id: str, reason: str) -> None:
        self.kind, self.id, self.reason = kind, id, reason
        super().__init__(f"{kind} {id:.80} is damaged: {reason}: restore a backup (ringrift doctor lists all damage)")


class SchemaTooNew(StoreError):
    """The database was written by a newer version of RingRift."""

    def __init__(self, path: str, schema: int, schema_max: int) -> None:
        self.path, self.schema, self.schema_max = path, schema, schema_max
        remedy = "upgrade ringrift, or restore a backup"
        super().__init__(f"{path} has schema {schema}; this version reads up to {schema_max}: {remedy}")


class SchemaTooOld(StoreError):
    """The database was written by an earlier version of RingRift, in a format that is no longer read."""

    def __init__(self, path: str, schema: int, schema_min: int, remedy: str = "") -> None:
        self.path, self.schema, self.schema_min = path, schema, schema_min
        remedy = remedy or "keep this folder for the version that wrote it, and set RINGRIFT_HOME to a new one"
        super().__init__(f"{path} has schema {schema}, but this version reads {schema_min} and later: {remedy}")


class UnsafeFilesystem(StoreError):
    """The database lies on a network filesystem, where SQLite's locks cannot be trusted."""

    def __init__(self, path: str, kind: str) -> None:
        self.path, self.kind = path, kind
        super().__init__(f"{path} lies on {kind}: keep the store on a local disk (set RINGRIFT_HOME)")


class CopiedStore(StoreError):
    """The store is a copy of one that had a coordinator elsewhere, which may still be running."""

    def __init__(self, path: str) -> None:
        self.path = path
        remedy = "use the first one, or, if it is gone for good, adopt this one:  ringrift coordinator --adopt"
        super().__init__(f"{path} is a copy of the store of another coordinator, which may still run: {remedy}")


class LeaseLost(RingriftError):
    """Another node holds the job or role now, or its lease has expired; the old holder's write was refused."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        super().__init__(f"lease lost: {', '.join(self.names)}: it expired or was taken over; the write was refused")


class NotLeader(RingriftError):
    """Another process holds the role; *text* says so in other words."""

    def __init__(self, role: str, holder: str, text: str = "") -> None:
        self.role, self.holder = role, holder
        super().__init__(text or f"role {role!r} is held by {holder}: wait until that process ends, or stop it")


class TransferError(RingriftError):
    """A file could not be brought where it is needed."""


class Corrupt(TransferError):
    """The bytes do not hash to their name."""

    def __init__(self, blob: str, where: str) -> None:
        self.blob, self.where = blob, where
        super().__init__(f"blob {blob[:12]} at {where} does not match its hash: this copy is damaged and is not used")


class NoRoute(TransferError):
    """No node could provide the blob; *gone* unless one that may have it could not be reached."""

    def __init__(self, blob: str, tried: Iterable[str], *, gone: bool = True, removal: str = "") -> None:
        self.blob, self.tried, self.gone = blob, tuple(tried), gone
        nodes = ", ".join(self.tried) or "no known holder"
        remedy = f"it was deleted by retention ({removal})" if removal else "start a node that has one"
        super().__init__(f"no copy of blob {blob[:12]} can be reached (tried: {nodes}): {remedy}")


class NodeAway(TransferError):
    """The node, or the disk of its blob folder, cannot be reached; its files may still exist."""

    def __init__(self, node: str, reason: str = "") -> None:
        self.node, self.reason = node, reason
        remedy = "check that it runs (ringrift status)"
        if reason:
            remedy = f"mount its disk; if the folder is meant to be new, run  ringrift data adopt {node}"
        super().__init__(f"node {node} cannot be reached{reason and f' ({reason})'}: {remedy}")


class NoRoom(TransferError):
    """The disk is full or read-only; nothing was written."""

    def __init__(self, where: str, problem: str = "no room left", remedy: str = "free some space") -> None:
        self.where = where
        super().__init__(f"{problem} at {where}: {remedy} and try again")


class DeliveryError(RingriftError):
    """An event could not be delivered."""


class TimedOut(DeliveryError):
    """A handler exceeded its time limit."""

    def __init__(self, reader: str, seconds: float) -> None:
        self.reader, self.seconds = reader, seconds
        super().__init__(f"{reader} took longer than {seconds:g} s and was cancelled: shorten it or raise its limit")


class SupervisionError(RingriftError):
    """A daemon could not be run as declared."""


class Unbound(SupervisionError):
    """A daemon has a parameter that is no part of the node."""

    def __init__(self, daemon: str, part: str) -> None:
        self.daemon, self.part = daemon, part
        remedy = "use a field of Node, alive or memory"
        super().__init__(f"daemon {daemon!r} asks for {part!r}, which no node has: {remedy}")


class GaveUp(SupervisionError):
    """A daemon failed more often than its restart budget allows."""

    def __init__(self, daemon: str, times: int, seconds: float) -> None:
        self.daemon, self.times, self.seconds = daemon, times, seconds
        remedy = f"mend the cause, then run  ringrift daemons clear {daemon}"
        super().__init__(f"daemon {daemon!r} failed more than {times} times in {seconds:g} s and is given up: {remedy}")


class WorkError(RingriftError):
    """A job did not finish."""


class JobFailed(WorkError):
    """The workload reported an error; with *retry* another attempt can help.

    *traceback* shows where it raised; *version* is that of a workload that refused its input.
    """

    def __init__(
        self, reason: str, *, retry: bool = True, blob: str | None = None, traceback: str = "", version: str = ""
    ) -> None:
        self.reason, self.retry, self.blob, self.traceback, self.version = reason, retry, blob, traceback, version
        super().__init__(reason)


class ChildDied(WorkError):
    """The worker process ended, hung or was killed before it reported a result."""


class InputError(RingriftError):
    """Input from outside was refused; nothing changed."""


class InvalidPayload(InputError):
    """The payload does not fit its declared type."""

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{path}: {reason}")


class TooLarge(InputError):
    """The payload has more bytes than an event may have."""

    def __init__(self, size: int, limit: int) -> None:
        self.size, self.limit = size, limit
        super().__init__(f"payload has {size} bytes; the limit is {limit}: store the data as a blob and name the blob")


class TooDeep(InputError):
    """The payload is nested too deeply."""

    def __init__(self, depth: int, limit: int) -> None:
        self.depth, self.limit = depth, limit
        super().__init__(f"payload is nested at least {depth} deep; the limit is {limit}: flatten it")


class InvalidId(InputError):
    """A name or id has a character or a length that is not allowed; *rule* is what is."""

    def __init__(self, what: str, value: str, rule: str) -> None:
        self.what, self.value, self.rule = what, value, rule
        super().__init__(f"{what} {value!r:.80} is not valid: {rule}")


class IdConflict(InputError):
    """The same id has been used with other content; the first one stays."""

    def __init__(self, id: str) -> None:
        self.id = id
        super().__init__(f"id {id!r} was used before with other content, which stays: use a new id")


class InvalidWork(InputError):
    """A job was requested with a field out of range."""

    def __init__(self, field: str, value: object, limit: str) -> None:
        self.field, self.value, self.limit = field, value, limit
        super().__init__(f"job field {field} = {value!r} is out of range ({limit})")


class IllegalTransition(InputError):
    """A model cannot change from its state to the requested one."""

    def __init__(self, model: str, before: str, state: str, allowed: Sequence[str]) -> None:
        self.model, self.before, self.state, self.allowed = model, before, state, tuple(allowed)
        allowed_states = ", ".join(self.allowed) or "nothing"
        super().__init__(f"model {model[:12]} is {before} and cannot become {state}; it can become {allowed_states}")


class Unranked(InputError):
    """The scores of a block are not rank scores."""

    def __init__(self, scores: Sequence[float]) -> None:
        self.scores = tuple(scores)
        super().__init__(f"{self.scores} are not rank scores: each is the share of opponents beaten, ties as halves")


class LoopDetected(InputError):
    """An event would be published because of itself, over and over."""

    def __init__(self, name: str, limit: int) -> None:
        self.name, self.limit = name, limit
        remedy = "let the handler ignore the events that it causes"
        super().__init__(f"event {name} would be number {limit + 1} in a row that cause each other, a loop: {remedy}")


class Backpressure(RingriftError):
    """A queue is full; the caller may try again later."""

    def __init__(self, queue: str, limit: int) -> None:
        self.queue, self.limit = queue, limit
        super().__init__(f"{queue} is full ({limit}): try again later")


TRANSIENT = (Busy, Backpressure, NoRoom, NodeAway, Overdue)
"""Errors that are waited for: nothing was changed, and the same call can succeed later."""


class LimitReached(RingriftError):
    """A task was not admitted, by which rule, on which value, against which limit; nothing was reserved."""

    def __init__(self, what: str, rule: str, value: float, limit: float) -> None:
        self.what, self.rule, self.value, self.limit = what, rule, value, limit
        super().__init__(f"{what} was not admitted: {rule}: {value:g} of {limit:g}; try again later")


class UnknownName(RingriftError):
    """There is nothing of that name."""

    def __init__(self, kind: str, name: str, names: Iterable[str] = ()) -> None:
        self.kind, self.name, self.names = kind, name, tuple(sorted(names))
        close = get_close_matches(name, self.names, _CLOSE_LISTED) if len(self.names) > _CLOSE_LISTED else []
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        if self.names and (len(self.names) <= _NAMES_LISTED or not close):
            dots = ", …" if len(self.names) > _NAMES_LISTED else ""
            hint = f"; known: {', '.join(self.names[:_NAMES_LISTED])}{dots}{hint}"
        super().__init__(f"unknown {kind} {name!r:.80}{hint}")


class NoChampion(RingriftError):
    """There is no model to play against yet."""

    def __init__(self, variant: str, why: str) -> None:
        self.variant = variant
        remedy = "name another opponent with --model, e.g. a baseline"
        super().__init__(f'{why}: train one with "ringrift run --variants {variant}", or {remedy}')


class MissingExtra(RingriftError):
    """An optional dependency is not installed."""

    def __init__(self, module: str, extra: str) -> None:
        self.module, self.extra = module, extra
        super().__init__(f"{module} is not installed: run  pip install 'ringrift[{extra}]'")


class SettingsError(RingriftError):
    """A setting has a value that is not allowed."""

    def __init__(self, key: str, value: object, limit: str) -> None:
        self.key, self.value, self.limit = key, value, limit
        is_setting = not key.startswith("--") and " " not in key
        subject = f"setting {key} = {value!r:.80}" if is_setting else f"{key} {value!r:.80}"
        super().__init__(f"{subject} is not valid: {limit}")


def printable(text: str, characters_max: int) -> str:
    """*text* fit to be stored and shown: not longer than that, with unprintable characters escaped."""
    text = text[:characters_max]
    if text.isprintable():  # as most are
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)[:characters_max]


def require_range(key: str, value: float, low: float, high: float) -> None:
    """Raise SettingsError naming *key*, *value* and the range unless *low* ≤ *value* ≤ *high*."""
    if not low <= value <= high:
        raise SettingsError(key, value, f"must lie between {low:g} and {high:g}")


def require_name(kind: str, name: str, names: Collection[str]) -> None:
    """Raise UnknownName unless *name* is one of *names*."""
    if name not in names:
        raise UnknownName(kind, name, names)


class Retry(Exception):
    """Raised by a reaction: not now, try this event again in *after* seconds."""

    def __init__(self, after: float) -> None:
        self.after = after
        super().__init__(f"retry after {after:g} s")


class Discard(Exception):
    """Raised by a reaction: this event needs no more tries, because of *reason*."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)
