"""Keys that the coordinator accepts, the tokens by which they are added, and what each key may do.

The store has public keys and digests of tokens only.  Every change moves a counter in the same transaction, so that one
small read tells a process that what it has cached is out of date.
"""

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ringrift.cluster.roster import NODES
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import InputError, LimitReached, UnknownName, require_name
from ringrift.kernel.ids import check_id
from ringrift.kernel.value import Value, changed
from ringrift.kernel.wire_errors import KeyRefused
from ringrift.store.ports import Store, Tx
from ringrift.store.records import Records
from ringrift.wire.keys import EXPIRED, NOT_SIGNED, REVOKED, UNKNOWN, USED, PublicKey, is_proof, split_token
from ringrift.wire.ports import Request

SCOPES = ("play", "train", "evaluate", "promote", "publish", "read", "administer")
_WORK_SCOPES = frozenset({"play", "train", "evaluate"})
_PROGRAM = ""  #: The profile of a key whose holder is no node: it may have several sessions, and gets no work.
# What a key of each profile may do at most of the work; a token may allow less.
_GAMES, _ALL = frozenset({"play", "evaluate"}), _WORK_SCOPES
_WORK_OF = {"full": _ALL, "training_node": _ALL, "selfplay": _GAMES, "ephemeral": _GAMES}
WORKER = ("play", "train", "evaluate")  #: What the token of a worker allows unless told otherwise.
TOKEN_SECONDS = 900.0
_CACHE_SECONDS_MAX = 1.0  # a revoked key is refused after this long at the latest
_KEYS_MAX = 100_000  # those of rented machines that never return are among them
_TOKENS_MAX = 1_000
_TOKEN_MEMORY_SECONDS = 86_400.0  # after its end: a node whose answer was lost asks again with it
_NO_DIGEST = bytes(32)


class StoredKey(Value):
    """The public key of a node or program, and what it may do."""

    node: str
    public: bytes
    scopes: tuple[str, ...]
    profile: str = _PROGRAM
    added: float = 0.0
    token: str = ""  #: The id of the token that it came with.
    expires: float | None = None
    revoked: str = ""  #: Why, if it is.
    shared: str = ""  #: The processes that use it, if two do: then it gets no work until it is replaced.
    rotate: bool = False  #: The operator wants another one.

    @property
    def is_program(self) -> bool:
        return self.profile == _PROGRAM

    def is_in_force(self, now: float) -> bool:
        return not self.revoked and (self.expires is None or now < self.expires)


class JoinToken(Value):
    """A token as it is stored: single use, for a short time."""

    id: str
    digest: bytes
    scopes: tuple[str, ...]
    expires: float
    node: str = ""  #: The only node that may use it; it may replace the key of that node.
    labels: dict[str, str] = {}  #: That the node gets.
    key_seconds: float | None = None  #: How long the key is valid; None: until it is revoked.
    used: bytes = b""  #: The public key that it was used for.


KEYS = Records("node_key", StoredKey, id="node", limit=_KEYS_MAX, checked=True)
_TOKENS = Records("join_token", JoinToken, id="id", limit=_TOKENS_MAX, checked=True)
_CHANGES = Records("node_keys_changed", int)
_ALL_KEYS = "all"


async def store_keys(tx: Tx, keys: Iterable[StoredKey]) -> None:
    """Write *keys*; a process that has cached them notices."""
    await KEYS.put(tx, keys)
    await _CHANGES.put_at(tx, {_ALL_KEYS: (await _CHANGES.get(tx, _ALL_KEYS) or 0) + 1})


async def store_token(tx: Tx, token: str, terms: JoinToken, now: float) -> JoinToken:
    """Store what is needed to accept *token* on these *terms*, and forget old ones."""
    for scope in terms.scopes:
        require_name("scope", scope, SCOPES)
    if terms.node:
        check_id("node", terms.node)
    tokens = await _TOKENS.scan(tx)
    old = [id for id, row in tokens.items() if row.expires + _TOKEN_MEMORY_SECONDS <= now]
    await _TOKENS.delete(tx, old)
    if len(tokens) - len(old) >= _TOKENS_MAX:
        raise LimitReached("token", "tokens of the last day", len(tokens) - len(old), _TOKENS_MAX)
    id, digest = split_token(token)
    row = changed(terms, id=id, digest=digest)
    await _TOKENS.put(tx, [row])
    return row


async def forget_tokens(tx: Tx) -> None:
    """Delete every token: of a restored store nobody knows which of them were used since."""
    await _TOKENS.delete(tx, list(await _TOKENS.scan(tx)))


async def redeem(
    tx: Tx, id: str, proof: bytes, *, node: str, public: bytes, profile: str, own: str, now: float
) -> tuple[StoredKey, JoinToken, bool]:
    """Store the key *public* of *node* by the token *id*: the key, the token, and whether the key is new.

    The same key again succeeds again: the first answer may have been lost.  Raises KeyRefused for a token that is not
    valid, and InputError for a name that is taken; *own* is the node of the coordinator.
    """
    token = await _TOKENS.get(tx, id)
    is_right = is_proof(proof, token.digest if token else _NO_DIGEST, "join", node, public, profile)
    if token is None or not is_right:
        raise KeyRefused("", UNKNOWN if token is None else NOT_SIGNED, "make another one with  ringrift nodes token")
    before, record = await KEYS.get(tx, check_id("node", node)), await NODES.get(tx, node)
    if _was_used(token, before, node=node, public=public, now=now):
        assert before is not None
        return before, token, False
    if node == own or _is_taken(token, before, node, is_recorded=record is not None):
        remedy = f"join as another (--set node.id=NAME), or with a token for it (ringrift nodes token --node {node})"
        raise InputError(f"there is a node {node} already: {remedy}")
    PublicKey(public)  # ValueError unless it can be one
    expires = None if token.key_seconds is None else now + token.key_seconds
    scopes = scopes_for(token.scopes, profile)
    key = StoredKey(node=node, public=public, scopes=scopes, profile=profile, added=now, token=id, expires=expires)
    await store_keys(tx, [key])
    await _TOKENS.put(tx, [changed(token, used=public)])
    return key, token, True


def _was_used(token: JoinToken, before: StoredKey | None, *, node: str, public: bytes, now: float) -> bool:
    """Whether *token* has brought this very key already.  Raises KeyRefused if it cannot bring it."""
    again = "make another one with  ringrift nodes token"
    if token.used:
        if token.used != public or before is None or before.public != public:
            raise KeyRefused("", USED, f"a token is for one node: {again}")
        return True
    if token.expires <= now:
        raise KeyRefused("", EXPIRED, again)
    if token.node not in ("", node):
        raise KeyRefused("", f"it is for node {token.node}", again)
    return False


def _is_taken(token: JoinToken, before: StoredKey | None, node: str, *, is_recorded: bool) -> bool:
    """Whether another node has this name: by a key that the token is not to replace, or without one, by the store."""
    if before is None:
        return is_recorded
    return not before.revoked and token.node != node


def scopes_for(scopes: Collection[str], profile: str) -> tuple[str, ...]:
    """What a key of *profile* may do by a token for *scopes*.  Raises UnknownName for a profile without work."""
    if profile not in _WORK_OF and profile not in (_PROGRAM, "minimal"):
        raise UnknownName("profile of a worker", profile, _WORK_OF)
    without = _WORK_SCOPES - _WORK_OF.get(profile, frozenset())
    return tuple(scope for scope in SCOPES if scope in scopes and scope not in without)


async def require_key(tx: Tx, node: str) -> StoredKey:
    """The key of *node*.  Raises UnknownName if it has none."""
    key = await KEYS.get(tx, node)
    if key is None:
        raise UnknownName("node with a key", node, await KEYS.scan(tx))
    return key


async def replace_key(tx: Tx, node: str, public: bytes) -> StoredKey:
    """Accept *public* instead of the key of *node*, which is refused from here on."""
    PublicKey(public)
    key = changed(await require_key(tx, node), public=public, shared="", rotate=False)
    await store_keys(tx, [key])
    return key


async def revoke_key(tx: Tx, node: str, reason: str) -> bool:
    """Refuse the key of *node* from here on, at once; whether it has changed."""
    key = await KEYS.get(tx, node)
    if key is None or key.revoked:
        return False
    await store_keys(tx, [changed(key, revoked=reason or REVOKED)])
    return True


@dataclass(frozen=True, slots=True)
class _CachedKey:
    """A key, ready to verify."""

    row: StoredKey
    public: PublicKey


class KeyCache:
    """Every key, at most _CACHE_SECONDS_MAX out of date."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._lock = asyncio.Lock()
        self._read, self._change, self._forgets = float("-inf"), -1, 0
        self._keys: dict[str, _CachedKey] = {}
        self._withdrawn = 0

    async def get(self, node: str) -> _CachedKey | None:
        """The key of *node*, whatever its state.  Raises what reading the store raises: no key is taken on trust."""
        await self._read_again()
        return self._keys.get(node)

    async def withdrawn(self) -> int:
        """How often a key that was known here was changed or removed: what it was allowed to do then may be over."""
        await self._read_again()
        return self._withdrawn

    async def _read_again(self) -> None:
        while not self._is_fresh():
            async with self._lock:
                if not self._is_fresh():
                    await self._refresh()

    async def prove(self, request: Request, now: float) -> StoredKey:
        """The key that has signed *request*, if it is in force.  Raises KeyRefused; only its owner learns why."""
        node = request.node
        key = await self.get(node)
        if key is None:
            raise KeyRefused(node, UNKNOWN)
        if not key.public.has_signed(request):
            raise KeyRefused(node, NOT_SIGNED)
        if not key.row.is_in_force(now):
            raise KeyRefused(node, REVOKED if key.row.revoked else EXPIRED, "ask the operator for a token")
        return key.row

    def forget(self) -> None:
        """Read the store before the next answer: a key was changed here."""
        self._read, self._forgets = float("-inf"), self._forgets + 1

    def _is_fresh(self) -> bool:
        return self._clock.tick() - self._read < _CACHE_SECONDS_MAX

    async def _refresh(self) -> None:
        begun, forgets = self._clock.tick(), self._forgets
        async with self._store.read() as view:
            change = await _CHANGES.get(view, _ALL_KEYS) or 0
            rows = None if change == self._change else await KEYS.scan(view)
        if rows is not None:
            old, self._change = self._keys, change
            self._keys = {
                node: old[node] if node in old and old[node].row == row else _CachedKey(row, PublicKey(row.public))
                for node, row in rows.items()
            }
            self._withdrawn += any(self._keys.get(node) is not key for node, key in old.items())
        if forgets == self._forgets:  # otherwise a key was changed while this was read
            self._read = begun
