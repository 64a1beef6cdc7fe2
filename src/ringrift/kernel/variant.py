"""Variant: a board and a number of players, written ``<board>_<players>p``."""

import re

from ringrift.kernel.errors import InvalidId
from ringrift.kernel.value import Value

_RULE = "write it as board_Np, e.g. hex8_2p: lower-case letters and digits, _ and players"
_VARIANT = re.compile(r"([a-z][a-z0-9]{0,30})_([1-9])p")


class _Variant(Value):
    board: str
    players: int

    def __str__(self) -> str:
        return f"{self.board}_{self.players}p"


def parse(text: str) -> _Variant:
    """The variant that *text* names.  Raises InvalidId."""
    match = _VARIANT.fullmatch(text)
    if not match:
        raise InvalidId("variant", text, _RULE)
    return _Variant(board=match[1], players=int(match[2]))
