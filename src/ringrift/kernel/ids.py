"""Ids: short, sortable, made from a clock and a random source."""

import hashlib
import re
from random import Random

from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import InvalidId, SettingsError

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's base 32: no I, L, O, U to misread
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.]{0,127}")
_BLOB = re.compile(r"[0-9a-f]{64}")


def _base32(number: int, width: int) -> str:
    return "".join(_ALPHABET[(number >> (5 * place)) & 31] for place in reversed(range(width)))


_PAIRS = [_base32(number, 2) for number in range(1024)]
_COUNT_MASK = (1 << 30) - 1


ID_CHARACTERS = 24  #: Of every id that is made.


class Ids:
    """Makes ids that sort by time: 10 characters of milliseconds, 8 of randomness per maker, 6 of count."""

    def __init__(self, clock: Clock, rng: Random) -> None:
        self._clock = clock
        self._maker = _base32(rng.getrandbits(40), 8)
        self._trace = f"{rng.getrandbits(64) | 1:016x}"
        self._count = 0
        self._moment, self._prefix = -1, ""

    def next(self) -> str:
        """A new id.  Hot, so the part that changes once a millisecond is cached, and the rest looked up in pairs."""
        moment = int(self._clock.now() * 1000)
        if moment != self._moment:
            self._moment, self._prefix = moment, _base32(moment, 10) + self._maker
        self._count = count = (self._count + 1) & _COUNT_MASK
        return self._prefix + _PAIRS[count >> 20] + _PAIRS[(count >> 10) & 1023] + _PAIRS[count & 1023]

    def trace(self) -> str:
        """A new trace id as W3C wants it, 32 hexadecimal digits: half of it is this maker's."""
        self._count = count = (self._count + 1) & _COUNT_MASK
        return f"{self._trace}{self._moment & 0xFFFFFFFF:08x}{count:08x}"


def check_id(what: str, value: str) -> str:
    """Return *value* if it can be an id.  Raises InvalidId naming *what* it should be."""
    return _check(_ID, what, value, "use 1 to 64 letters, digits, - and _")


def check_name(what: str, value: str) -> str:
    """Return *value* if it can be the name of an event.  Raises InvalidId."""
    return _check(_NAME, what, value, "use a letter and up to 127 letters, digits, _ and .")


def check_blob(value: str) -> str:
    """Return *value* if it can be the name of a blob: 64 hexadecimal digits.  Raises InvalidId."""
    return _check(_BLOB, "blob", value, "it must be 64 hexadecimal digits")


def is_blob(value: str) -> bool:
    """Whether *value* can be the name of a blob."""
    return _BLOB.fullmatch(value) is not None


def _check(pattern: re.Pattern[str], what: str, value: str, rule: str) -> str:
    if not pattern.fullmatch(value):
        raise InvalidId(what, value, rule)
    return value


def seed_of(*parts: object) -> int:
    """A 63-bit seed that is the same for the same *parts* on every machine and Python."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def require_utf8(key: str, value: str, *, text: str | None = None) -> None:
    """Raise SettingsError naming *key* if *value*, which is shown as *text*, came from bytes that are no UTF-8."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise SettingsError(key, value if text is None else text, "its bytes are not UTF-8") from None
