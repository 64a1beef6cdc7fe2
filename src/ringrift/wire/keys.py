"""Keys of nodes and programs: an Ed25519 key in a file of its own signs every request, and its public half is stored.

A signature covers verb, body, node, session and number, so that no part of a request can be taken into another one.  A
token proves itself without being sent: both sides know its digest, and each proves to the other that it does.
"""

import hashlib
import hmac
import os
import re
import stat
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import msgspec

from ringrift.kernel.clock import Clock, SystemClock
from ringrift.kernel.errors import SettingsError
from ringrift.kernel.extras import require_module
from ringrift.kernel.value import Value, changed
from ringrift.wire.ports import Request

NO_SESSION, STALE, UNKNOWN, NOT_SIGNED = "no session", "challenge too old", "unknown", "wrong"
EXPIRED, REVOKED, USED, REPLAYED = "expired", "revoked", "used before", "answered before"
DUPLICATE = "its key is used by two processes"  #: Of these reasons: why a key or token is refused.
_SEED_BYTES = 32
_TOKEN_ID_BITS, _TOKEN_BITS = 32, 160
_TOKEN = re.compile(r"rr-([0-9a-f]{8})-([0-9a-f]{40})")
_CONTEXT = b"ringrift wire request 1\0"  # a signature for this is none for anything else
_ENCODER = msgspec.msgpack.Encoder()


class _KeyFile(Value):
    """What the file of a key contains; *next* is a key that the coordinator may or may not have accepted yet."""

    node: str
    seed: bytes
    next: bytes = b""


class SigningKey:
    """The private key of *node*.  It is never sent, and no text of it shows the key."""

    def __init__(self, node: str, seed: bytes) -> None:
        ed25519 = require_module("cryptography.hazmat.primitives.asymmetric.ed25519", "cluster")
        self.node, self._seed = node, seed
        self._private: Any = ed25519.Ed25519PrivateKey.from_private_bytes(seed)
        self.public: bytes = self._private.public_key().public_bytes_raw()

    @classmethod
    def make(cls, node: str, rng: Random) -> "SigningKey":
        """A new key; *rng* is a ``SystemRandom`` unless the world is simulated."""
        return cls(node, rng.getrandbits(8 * _SEED_BYTES).to_bytes(_SEED_BYTES, "big"))

    def sign(self, request: Request) -> Request:
        """*request* with its signature."""
        signature: bytes = self._private.sign(_signed_bytes(request))
        return changed(request, signature=signature)

    def __repr__(self) -> str:
        return f"SigningKey({self.node!r}, {self.public.hex()[:12]}…)"

    def save(self, path: Path, next: "SigningKey | None" = None) -> None:
        """Write the key to *path* whole or not at all, for its owner only."""
        body = msgspec.json.encode(_KeyFile(node=self.node, seed=self._seed, next=next._seed if next else b""))
        write_whole(path, body, 0o600)


def write_whole(path: Path, body: bytes, mode: int) -> None:
    """Write *body* to *path* whole or not at all, with the permissions *mode* from the start."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def load_key(path: Path) -> tuple[SigningKey, SigningKey | None]:
    """The key in *path*, and the one that was to replace it.  Raises SettingsError if there is none to be trusted."""
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise SettingsError("key file", str(path), f"others can read it: run  chmod 600 {path}")
        file = msgspec.json.decode(path.read_bytes(), type=_KeyFile)
        return SigningKey(file.node, file.seed), SigningKey(file.node, file.next) if file.next else None
    except FileNotFoundError as error:
        remedy = "file not found: run  ringrift join URL --token-file FILE"
        raise SettingsError("key file", str(path), remedy) from error
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise SettingsError("key file", str(path), "it cannot be read: remove it and join again") from error


class PublicKey:
    """The public half, which verifies."""

    def __init__(self, public: bytes) -> None:
        ed25519 = require_module("cryptography.hazmat.primitives.asymmetric.ed25519", "cluster")
        self._invalid = require_module("cryptography.exceptions", "cluster").InvalidSignature
        self._public: Any = ed25519.Ed25519PublicKey.from_public_bytes(public)  # ValueError unless it has 32 bytes

    def has_signed(self, request: Request) -> bool:
        """Whether the signature of *request* is by this key."""
        try:
            self._public.verify(request.signature, _signed_bytes(request))
        except self._invalid:
            return False
        return True


def _signed_bytes(request: Request) -> bytes:
    digest = hashlib.sha256(request.body).digest()
    return _CONTEXT + _ENCODER.encode((request.verb, digest, request.node, request.session, request.number))


def secret_rng(clock: Clock, rng: Random) -> Random:
    """The source of secrets: the system's, unless the world is simulated and has only *rng*."""
    return SystemRandom() if isinstance(clock, SystemClock) else rng


def make_token(rng: Random) -> str:
    """A new token: its id, which may be shown, and a secret of 160 bits."""
    id, secret = (f"{rng.getrandbits(bits):0{bits // 4}x}" for bits in (_TOKEN_ID_BITS, _TOKEN_BITS))
    return f"rr-{id}-{secret}"


def split_token(token: str) -> tuple[str, bytes]:
    """The id of *token* and the digest of its secret.  Raises SettingsError, without the token, if it is none."""
    match = _TOKEN.fullmatch(token.strip())
    if match is None:
        raise SettingsError("token", f"{len(token)} characters", "it is no token: make one with  ringrift nodes token")
    return match[1], hashlib.sha256(match[2].encode()).digest()


def prove(digest: bytes, *parts: bytes | str) -> bytes:
    """The proof that its maker knows the token with *digest*, for these *parts* only."""
    texts = [part.encode() if isinstance(part, str) else part for part in parts]
    return hmac.digest(digest, _ENCODER.encode(texts), "sha256")


def is_proof(proof: bytes, digest: bytes, *parts: bytes | str) -> bool:
    """Whether *proof* is that of *digest* for *parts*, compared in constant time."""
    return hmac.compare_digest(proof, prove(digest, *parts))
