"""Variant: which game is meant, written ``<board>_<players>p``."""

import re
from collections.abc import Iterable

from ringrift.kernel.errors import InvalidId, UnknownName
from ringrift.kernel.value import Value

_VARIANT = re.compile(r"([a-z][a-z0-9]{0,30})_([1-9])p")


class Variant(Value):
    """A board and a number of players."""

    board: str
    players: int

    def __str__(self) -> str:
        return f"{self.board}_{self.players}p"


def parse(text: str) -> Variant:
    """The variant that *text* names.  Raises InvalidId if it names none."""
    found = _VARIANT.fullmatch(text)
    if not found:
        raise InvalidId("variant", text)
    return Variant(board=found[1], players=int(found[2]))


def require(text: str, known: Iterable[str]) -> str:
    """*text* if a registered workload declares it.  Raises InvalidId or UnknownName."""
    parse(text)
    if text not in (names := set(known)):
        raise UnknownName("variant", text, names)
    return text
