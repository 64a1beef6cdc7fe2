"""The edge: the one function that bytes from outside pass before they become an event.

msgspec alone is not enough here: it lets duplicate keys pass, turns NaN into null and answers deep nesting with a
recursion error.  So size and depth are checked on the bytes, then a strict parse with the standard library catches what
JSON allows and we do not, then the caller decodes by type.
"""

import json
import math
import re
from typing import Any

from ringrift.kernel.errors import InvalidPayload, TooDeep, TooLarge

SIZE_MAX = 64 * 1024
DEPTH_MAX = 32
_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1
_DIGITS_MAX = 19
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")


def check(raw: bytes, *, size_max: int = SIZE_MAX) -> None:
    """Raise TooLarge, TooDeep or InvalidPayload unless *raw* is JSON that we would have written."""
    if len(raw) > size_max:
        raise TooLarge(len(raw), size_max)
    _check_depth(raw)
    try:
        parsed = json.loads(raw, object_pairs_hook=_unique, parse_constant=_no_constant, parse_int=_small_int)
    except UnicodeDecodeError as bad:
        raise InvalidPayload("$", "is not UTF-8") from bad
    except json.JSONDecodeError as bad:
        raise InvalidPayload("$", f"is not JSON: {bad.msg} at {bad.pos}") from bad
    _check_scalars(parsed, "$")


def check_finite(value: Any, path: str = "$") -> None:
    """Raise InvalidPayload if a float anywhere inside the built-in structure *value* is NaN or infinite."""
    _check_scalars(value, path)


def _check_depth(raw: bytes) -> None:
    depth = deepest = 0
    for byte in _STRING.sub(b"", raw):
        if byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
            if deepest > DEPTH_MAX:
                raise TooDeep(deepest, DEPTH_MAX)
        elif byte in b"]}":
            depth -= 1


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        twice = next(key for key, _ in pairs if sum(key == other for other, _ in pairs) > 1)
        raise InvalidPayload(f"$.{twice}", "occurs twice in one object")
    return made


def _no_constant(text: str) -> Any:
    raise InvalidPayload("$", f"{text} is not a number")


def _small_int(text: str) -> int:
    # The length is checked first: converting thousands of digits is slow and raises an error of its own.
    if len(text.lstrip("-")) > _DIGITS_MAX or not _INT_MIN <= int(text) <= _INT_MAX:
        raise InvalidPayload("$", f"integer {text[:24]}… does not fit 64 bits")
    return int(text)


def _check_scalars(value: Any, path: str) -> None:
    match value:
        case str() if _SURROGATE.search(value):
            raise InvalidPayload(path, "has a lone surrogate")
        case float() if not math.isfinite(value):
            raise InvalidPayload(path, f"{value} is not a finite number")
        case dict():
            for key, item in value.items():
                _check_scalars(key, path)
                _check_scalars(item, f"{path}.{key}")
        case list() | tuple():
            for place, item in enumerate(value):
                _check_scalars(item, f"{path}[{place}]")
