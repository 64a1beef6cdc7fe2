"""Every error, as one tree.

RingriftError
├── StoreError        Unreachable · Overdue · Overtaken · SchemaTooNew · UnsafeFilesystem
├── LeaseLost         work, leadership and locks alike
├── NotLeader
├── TransferError     Corrupt · NoRoute · NodeAway · NoRoom
├── DeliveryError     TimedOut
├── SupervisionError  Unbound · GaveUp
├── WorkError         JobFailed · ChildDied
├── InputError        InvalidPayload · TooLarge · TooDeep · InvalidId · IdConflict · InvalidWork ·
│                     IllegalTransition · Unranked · LoopDetected
├── Backpressure
├── LimitReached
├── UnknownName       event, job, daemon, variant, workload, setting
├── AmbiguousVariant
├── MissingExtra
└── SettingsError

Leaves say what is the case, and carry it in fields.  Only branches end in ``Error``.
Two signals that a reaction may raise on purpose stand beside the tree: ``Retry`` and ``Discard``.
"""

from collections.abc import Iterable, Sequence


class RingriftError(Exception):
    """Root of every error that RingRift raises on purpose."""


class StoreError(RingriftError):
    """The store could not do what was asked."""


class Unreachable(StoreError):
    """The store does not answer, or a commit failed; what was in flight may or may not have happened."""


class Overdue(StoreError):
    """A transaction held everybody up for too long and was undone."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"a transaction took longer than {seconds:g} s and was undone")


class Overtaken(StoreError):
    """The reader's place has been moved by someone else, or what it wants to read has been compacted."""

    def __init__(self, reader: str, expected: int, found: int | None) -> None:
        self.reader, self.expected, self.found = reader, expected, found
        where = "has lapsed: `ringrift readers forget` lets it start anew" if found is None else f"stands at {found}"
        super().__init__(f"reader {reader!r} expected to stand at {expected}, but {where}")


class SchemaTooNew(StoreError):
    """The database was written by a newer version of RingRift."""

    def __init__(self, path: str, found: int, known: int) -> None:
        self.path, self.found, self.known = path, found, known
        super().__init__(
            f"{path} has schema {found}; this version knows up to {known}: upgrade ringrift, or restore a backup"
        )


class UnsafeFilesystem(StoreError):
    """The database lies on a network filesystem, where SQLite's locks cannot be trusted."""

    def __init__(self, path: str, kind: str) -> None:
        self.path, self.kind = path, kind
        super().__init__(f"{path} lies on {kind}: keep the store on a local disk (set RINGRIFT_HOME)")


class LeaseLost(RingriftError):
    """Somebody else holds it now, or nobody does; the old holder's write was refused."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        super().__init__(f"lease lost: {', '.join(self.names)}")


class NotLeader(RingriftError):
    """Another process holds the role."""

    def __init__(self, role: str, holder: str) -> None:
        self.role, self.holder = role, holder
        super().__init__(f"role {role!r} is held by {holder}")


class TransferError(RingriftError):
    """A file could not be brought where it is needed."""


class Corrupt(TransferError):
    """The bytes do not hash to their name."""

    def __init__(self, blob: str, where: str) -> None:
        self.blob, self.where = blob, where
        super().__init__(f"blob {blob[:12]} at {where} does not match its hash")


class NoRoute(TransferError):
    """No node could hand the blob over; *gone* unless one that may hold it could not be reached."""

    def __init__(self, blob: str, tried: Iterable[str], *, gone: bool = True) -> None:
        self.blob, self.tried, self.gone = blob, tuple(tried), gone
        super().__init__(
            f"no copy of blob {blob[:12]} can be had (tried: {', '.join(self.tried) or 'no known holder'})"
        )


class NodeAway(TransferError):
    """The node cannot be reached; what it holds may be there still."""

    def __init__(self, node: str) -> None:
        self.node = node
        super().__init__(f"node {node} cannot be reached")


class NoRoom(TransferError):
    """The disk is full; nothing was written."""

    def __init__(self, where: str) -> None:
        self.where = where
        super().__init__(f"no room left at {where}: free some space and try again")


class DeliveryError(RingriftError):
    """An event could not be delivered."""


class TimedOut(DeliveryError):
    """A handler took longer than it may."""

    def __init__(self, reader: str, seconds: float) -> None:
        self.reader, self.seconds = reader, seconds
        super().__init__(f"{reader} took longer than {seconds:g} s")


class SupervisionError(RingriftError):
    """A daemon could not be run as declared."""


class Unbound(SupervisionError):
    """A daemon asks for a part that the node does not have."""

    def __init__(self, daemon: str, part: str) -> None:
        self.daemon, self.part = daemon, part
        super().__init__(f"daemon {daemon!r} asks for {part!r}, which no node has")


class GaveUp(SupervisionError):
    """A daemon failed more often than its restart budget allows."""

    def __init__(self, daemon: str, times: int, seconds: float) -> None:
        self.daemon, self.times, self.seconds = daemon, times, seconds
        super().__init__(f"daemon {daemon!r} failed more than {times} times in {seconds:g} s")


class WorkError(RingriftError):
    """A job did not come to its end."""


class JobFailed(WorkError):
    """The workload reported an error; *retry* says whether trying again can help."""

    def __init__(self, reason: str, *, retry: bool = True, blob: str | None = None) -> None:
        self.reason, self.retry, self.blob = reason, retry, blob
        super().__init__(reason)


class ChildDied(WorkError):
    """The worker process ended, hung or was killed before it reported a result."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class InputError(RingriftError):
    """Something from outside was refused at the edge; nothing changed."""


class InvalidPayload(InputError):
    """The payload is not what it claims to be."""

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{path}: {reason}")


class TooLarge(InputError):
    """The payload has more bytes than an event may have."""

    def __init__(self, size: int, limit: int) -> None:
        self.size, self.limit = size, limit
        super().__init__(f"payload has {size} bytes; the limit is {limit}")


class TooDeep(InputError):
    """The payload is nested deeper than any of ours."""

    def __init__(self, depth: int, limit: int) -> None:
        self.depth, self.limit = depth, limit
        super().__init__(f"payload is nested at least {depth} deep; the limit is {limit}")


class InvalidId(InputError):
    """A name or id has characters or a length that none of ours has."""

    def __init__(self, what: str, value: str) -> None:
        self.what, self.value = what, value
        super().__init__(f"{what} {value!r:.80} is not valid")


class IdConflict(InputError):
    """The same id has been used for another body; the first one stands."""

    def __init__(self, id: str) -> None:
        self.id = id
        super().__init__(f"id {id!r} is taken by another body")


class InvalidWork(InputError):
    """A job was asked for with a field out of range."""

    def __init__(self, field: str, value: object, limit: str) -> None:
        self.field, self.value, self.limit = field, value, limit
        super().__init__(f"job field {field} = {value!r} is out of range ({limit})")


class IllegalTransition(InputError):
    """A model cannot go from where it stands to where somebody wants it."""

    def __init__(self, model: str, before: str, state: str, allowed: Sequence[str]) -> None:
        self.model, self.before, self.state, self.allowed = model, before, state, tuple(allowed)
        follows = ", ".join(self.allowed) or "nothing"
        super().__init__(f"model {model[:12]} is {before} and cannot become {state}: what may follow is {follows}")


class Unranked(InputError):
    """The scores of a block are no rank scores."""

    def __init__(self, scores: Sequence[float]) -> None:
        self.scores = tuple(scores)
        super().__init__(f"{self.scores} are not rank scores: each is the share of opponents beaten, ties as halves")


class LoopDetected(InputError):
    """An event was to be said because of itself, over and over."""

    def __init__(self, name: str, limit: int) -> None:
        self.name, self.limit = name, limit
        super().__init__(f"event {name} would be number {limit + 1} in a row that cause each other: a loop")


class Backpressure(RingriftError):
    """A queue is full; the caller may try again later."""

    def __init__(self, queue: str, limit: int) -> None:
        self.queue, self.limit = queue, limit
        super().__init__(f"{queue} is full ({limit}): try again later")


class LimitReached(RingriftError):
    """There is no place for a task now, by which rule, on which value, against which limit; nothing was taken."""

    def __init__(self, what: str, rule: str, value: float, limit: float) -> None:
        self.what, self.rule, self.value, self.limit = what, rule, value, limit
        super().__init__(f"{what} has no place: {rule}: {value:g} of {limit:g}")


class UnknownName(RingriftError):
    """Nothing is registered under that name."""

    def __init__(self, kind: str, name: str, known: Iterable[str] = ()) -> None:
        self.kind, self.name, self.known = kind, name, tuple(sorted(known))
        hint = f"; known: {', '.join(self.known[:24])}" if self.known else ""
        super().__init__(f"unknown {kind} {name!r:.80}{hint}")


class AmbiguousVariant(RingriftError):
    """Something was asked of the variant there is, and there are several."""

    def __init__(self, variants: Iterable[str]) -> None:
        self.variants = tuple(sorted(variants))
        super().__init__(f"say which variant: there are {', '.join(self.variants[:24])}")


class MissingExtra(RingriftError):
    """An optional dependency is not installed."""

    def __init__(self, module: str, extra: str) -> None:
        self.module, self.extra = module, extra
        super().__init__(f"{module} is not installed: run  pip install 'ringrift[{extra}]'")


class SettingsError(RingriftError):
    """A setting has a value it cannot have."""

    def __init__(self, key: str, value: object, limit: str) -> None:
        self.key, self.value, self.limit = key, value, limit
        super().__init__(f"setting {key} = {value!r:.80} is not valid: {limit}")


def told(text: str, characters_max: int) -> str:
    """*text* as it can be stored and shown: what is not Unicode or not printable is escaped, and it has an end."""
    shown = [
        letter if letter.isprintable() or letter in "\n\t" else letter.encode("unicode_escape").decode()
        for letter in text[:characters_max]
    ]
    return "".join(shown)[:characters_max]


def within(key: str, value: float, low: float, high: float) -> None:
    """Raise SettingsError naming *key*, *value* and the range unless *low* ≤ *value* ≤ *high*."""
    if not low <= value <= high:
        raise SettingsError(key, value, f"must lie between {low:g} and {high:g}")


class Retry(Exception):
    """Raised by a reaction: not now, try this event again in *after* seconds."""

    def __init__(self, after: float) -> None:
        self.after = after
        super().__init__(f"retry after {after:g} s")


class Discard(Exception):
    """Raised by a reaction: this event needs no more tries, and *reason* says why."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)
