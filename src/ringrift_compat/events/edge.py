"""The edge: the check that bytes from outside pass before they become an event.

msgspec alone is not enough here: it lets duplicate keys pass, turns NaN into null and answers deep nesting with a
recursion error.  So size and depth are checked on the bytes, then a strict parse with the standard library refuses what
JSON allows and we do not, then the caller decodes by type.
"""

import json
import re
from typing import Any

from ringrift.events.catalog import SIZE_MAX, check_scalars
from ringrift.kernel.errors import InvalidPayload, TooDeep, TooLarge

_DEPTH_MAX = 32
_DIGITS_MAX = 19
# A string up to its end or the end of all, or a bracket.  Every string start matches, so a scan costs one pass.
_TOKEN = re.compile(r'"(?:[^"\\]|\\(?:.|\Z))*(?:"|\Z)|[\[\]{}]', re.DOTALL)


def check(raw: bytes, *, size_max: int = SIZE_MAX) -> None:
    """Raise TooLarge, TooDeep or InvalidPayload unless *raw* is JSON that we would have written."""
    if len(raw) > size_max:
        raise TooLarge(len(raw), size_max)
    try:
        text = raw.decode()
        _check_depth(text)
        parsed = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_int=_small_int)
    except UnicodeDecodeError as bad:
        raise InvalidPayload("$", "is not UTF-8") from bad
    except json.JSONDecodeError as bad:
        raise InvalidPayload("$", f"is not JSON: {bad.msg} at {bad.pos}") from bad
    check_scalars(parsed)


def _check_depth(text: str) -> None:
    depth = 0
    for token in _TOKEN.finditer(text):
        match token[0]:
            case "[" | "{":
                depth += 1
                if depth > _DEPTH_MAX:
                    raise TooDeep(depth, _DEPTH_MAX)
            case "]" | "}":
                depth -= 1


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    parsed: dict[str, Any] = {}
    for key, value in pairs:
        if key in parsed:
            raise InvalidPayload(f"$.{key}", "occurs twice in one object")
        parsed[key] = value
    return parsed


def _no_constant(text: str) -> Any:
    raise InvalidPayload("$", f"{text} is not a number")


def _small_int(text: str) -> int:
    # The length is checked first: converting thousands of digits is slow and raises an error of its own.
    if len(text.lstrip("-")) > _DIGITS_MAX:
        raise InvalidPayload("$", f"integer {text[:24]}… does not fit 64 bits")
    return int(text)
