"""Variants are read strictly, and only those that a workload declares are let in."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringrift.kernel.errors import InvalidId, UnknownName, require_name
from ringrift.kernel.variant import _Variant, parse


@settings(max_examples=40)
@given(st.from_regex(r"[a-z][a-z0-9]{0,30}", fullmatch=True), st.integers(min_value=1, max_value=9))
def test_a_variant_survives_formatting_and_parsing(board: str, players: int) -> None:
    """Parsing what a variant is written as gives the same variant."""
    variant = _Variant(board=board, players=players)

    assert parse(str(variant)) == variant


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "hex8",
        "hex8_p",
        "hex8_0p",
        "hex8_10p",
        "Hex8_2p",
        "8hex_2p",
        "hex8_2p\n",
        "hex8-2p",
        "hex8_2P",
        "hex 8_2p",
        "x" * 32 + "_2p",
        "hex8_２p",
    ],
)
def test_an_invalid_variant_is_refused(bad: str) -> None:
    """Anything but a small board name, an underline, one digit from 1 to 9 and a p is refused."""
    with pytest.raises(InvalidId, match=r"^variant "):
        parse(bad)


def test_an_undeclared_variant_is_unknown() -> None:
    """A well-formed variant without a workload is refused with the list of the available ones."""
    require_name("variant", "hex8_2p", ["hex8_3p", "hex8_2p"])
    with pytest.raises(UnknownName) as unknown:
        require_name("variant", "hex9_2p", ["hex8_3p", "hex8_2p"])

    assert (unknown.value.kind, unknown.value.names) == ("variant", ("hex8_2p", "hex8_3p"))
    assert str(unknown.value) == "unknown variant 'hex9_2p'; known: hex8_2p, hex8_3p"
