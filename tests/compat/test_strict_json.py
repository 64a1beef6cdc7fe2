"""The edge accepts exactly the JSON that we would have written, and names the defect of the rest."""

import json
import math
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringrift.events.catalog import SIZE_MAX, check_scalars
from ringrift.kernel.errors import InputError, InvalidPayload, TooDeep, TooLarge
from ringrift_compat.events.edge import _DEPTH_MAX, check

SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
TREES = st.recursive(
    SCALARS | TEXT, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=12
)


def refused(raw: bytes, error: type[InputError] = InvalidPayload) -> str:
    """The text with which *raw* is refused."""
    with pytest.raises(error) as error:
        check(raw)
    return str(error.value)


@settings(max_examples=40)
@given(TREES)
def test_valid_json_passes(tree: Any) -> None:
    """Every tree of plain values passes, escaped or not, with blanks or without."""
    check(json.dumps(tree).encode())
    check(json.dumps(tree, ensure_ascii=False, indent=1).encode())


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("frame", ["%s", '{"a": %s}', '[1, {"a": [%s]}]'])
def test_nan_and_infinity_are_refused(word: str, frame: str) -> None:
    """NaN and infinity are named in the refusal, at any depth."""
    assert f"{word} is not a number" in refused((frame % word).encode())


def test_a_number_beyond_every_float_is_refused() -> None:
    """An exponent beyond every float would become infinity; it is refused with its position."""
    assert refused(b'{"a": [1.0, 1e999]}') == "$.a[1]: inf is not a finite number"


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        (b'{"a":1,"a":1}', "a"),
        (b'{"x":{"b":1,"c":2,"b":3}}', "b"),
        (b'[[{"y":[{"d":1,"d":null}]}]]', "d"),
        (b'{"a":1,"\\u0061":2}', "a"),
    ],
)
def test_a_key_that_occurs_twice_is_named(raw: bytes, key: str) -> None:
    """Duplicate keys are refused at any depth, also when one of them is written with an escape."""
    assert refused(raw) == f"$.{key}: occurs twice in one object"


def test_the_same_key_in_two_objects_is_no_duplicate() -> None:
    """A key may occur once in each object."""
    check(b'[{"a":{"a":1}},{"a":2}]')


@pytest.mark.parametrize(
    "raw",
    [
        b"[" * 100_000,
        b"[" * 50_000 + b"]" * 50_000,
        b'{"a":' * 100_000,
        b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
        b'[{"a":' * 50_000,
    ],
    ids=["[", "[]", "{", "{}", "[{"],
)
def test_deep_nesting_is_refused_before_it_is_parsed(raw: bytes) -> None:
    """A hundred thousand brackets, balanced or not, are an error of ours and not of the parser's stack."""
    with pytest.raises(TooDeep) as error:
        check(raw, size_max=10**6)

    depths = f"{_DEPTH_MAX + 1} deep; the limit is {_DEPTH_MAX}"
    assert str(error.value) == f"payload is nested at least {depths}: flatten it"


def test_the_depth_has_an_exact_limit() -> None:
    """Thirty-two levels pass, thirty-three do not."""
    check(b"[" * 32 + b"]" * 32)

    refused(b"[" * 33 + b"]" * 33, TooDeep)


@pytest.mark.parametrize(
    "text", ["[" * 100, "{" * 100, '"' + "[" * 100, "\\" + '"' + "{" * 100, "\\", '\\"[' * 50, "]" * 100]
)
def test_brackets_inside_texts_are_no_nesting(text: str) -> None:
    """Brackets in strings do not count, whatever quotes and backslashes stand before them."""
    check(json.dumps({"a": text, text: [text]}).encode())


def test_brackets_after_a_text_with_quotes_count() -> None:
    """An escaped quote does not hide the brackets after the string."""
    refused(b'["\\"", ' + b"[" * 40 + b']"', TooDeep)


def test_depth_is_counted_in_characters_and_not_in_another_coding() -> None:
    """JSON in another coding than UTF-8 is refused: its bytes could hide brackets and overrun the parser's stack."""
    hidden = '["\u0122",' + "[" * 10_000 + '"x"'

    for coding in ("utf-16", "utf-16-le", "utf-32"):
        refused(hidden.encode(coding), InputError)
        refused('{"a":1}'.encode(coding))


def test_a_mark_of_byte_order_is_refused() -> None:
    """We would never have written one, and no typed decoder takes it."""
    refused(b"\xef\xbb\xbf{}")


@pytest.mark.parametrize(
    "raw", [b'"\\ud800"', b'{"a":"x\\udfff"}', b'{"\\ud83d":1}', b'["\\ude00\\ud83d"]', b'"\xed\xa0\x80"']
)
def test_a_lone_surrogate_is_refused(raw: bytes) -> None:
    """Half a character, escaped or raw, as text or key, cannot be encoded."""
    assert "surrogate" in (text := refused(raw)) or "UTF-8" in text


def test_a_pair_of_surrogates_is_a_character() -> None:
    """Two halves in the right order are one character, as JSON has it."""
    check(b'"\\ud83d\\ude00"')


@pytest.mark.parametrize("raw", [b"9" * 5000, b"-" + b"9" * 5000, b'{"a":' + b"1" * 5000 + b"}"])
def test_an_integer_of_thousands_of_digits_is_refused(raw: bytes) -> None:
    """Length alone decides: five thousand digits are not converted, and the text shows only the first."""
    text = refused(raw)

    assert "does not fit 64 bits" in text
    assert len(text) < 100


@pytest.mark.parametrize(
    ("number", "fits"),
    [(2**63 - 1, True), (2**63, False), (-(2**63), True), (-(2**63) - 1, False), (10**19, False), (0, True)],
)
def test_integers_have_64_bits(number: int, fits: bool) -> None:
    """Exactly what the store can hold is let in."""
    raw = json.dumps({"a": number}).encode()
    if fits:
        check(raw)
    else:
        assert "does not fit 64 bits" in refused(raw)


def test_the_size_has_an_exact_limit() -> None:
    """64 KiB pass; one byte more is refused with both numbers, whatever is in it."""
    full = b'"' + b"x" * (SIZE_MAX - 2) + b'"'
    check(full)

    assert (
        refused(full + b" ", TooLarge)
        == "payload has 65537 bytes; the limit is 65536: store the data as a blob and name the blob"
    )
    refused(b"\xff" * (SIZE_MAX + 1), TooLarge)


@pytest.mark.parametrize("raw", [b"\xff", b'"\xc3"', b'{"a":"\xe2\x82"}', b'"\xf8\x88\x80\x80\x80"', b'"\xc0\xaf"'])
def test_bytes_that_are_no_text_are_refused(raw: bytes) -> None:
    """Invalid UTF-8 is refused as such."""
    assert refused(raw) == "$: is not UTF-8"


@pytest.mark.parametrize(
    "raw",
    [b"", b" ", b"{", b'{"a"}', b"[1,]", b"{'a':1}", b"01", b"1 2", b'"\x00"', b'"\\x41"', b"nul", b'{"a":1}}', b"]["],
)
def test_invalid_json_is_refused_with_a_position(raw: bytes) -> None:
    """Broken JSON raises with the expected token and its position."""
    assert refused(raw).startswith("$: is not JSON: ")


@pytest.mark.timeout(5)  # a scan that looks back costs twelve seconds
def test_a_long_unterminated_string_is_refused_at_once() -> None:
    """A string of escaped quotes without an end costs no more than its length: it cannot stall the loop."""
    assert "Unterminated string" in refused(b'"' + b'\\"' * 32_000)


@pytest.mark.timeout(5)  # comparing each with each costs many seconds
def test_duplicate_keys_are_detected_in_linear_time() -> None:
    """A duplicate after thousands of other keys is detected without comparing each with each."""
    keys = [f'"{number}":1' for number in range(7_000)]

    assert refused(("{" + ",".join([*keys, '"zz":1', '"zz":1']) + "}").encode()) == "$.zz: occurs twice in one object"


@settings(max_examples=40)
@given(st.binary(max_size=40) | TREES.map(lambda tree: json.dumps(tree).encode()[:-1]))
def test_the_edge_raises_nothing_but_input_errors(raw: bytes) -> None:
    """Whatever the bytes are, the edge returns or raises an error of its own."""
    with suppress(InputError):
        check(raw)


def test_a_finite_structure_passes_and_an_infinite_number_names_its_path() -> None:
    """Values of our own pass the same check before they are published."""
    check_scalars({"a": [1.0, None, (2, "x")], "b": True})

    with pytest.raises(InvalidPayload) as error:
        check_scalars({"a": [1.0, {"b": (0.0, math.nan)}]})

    assert str(error.value) == "$.a[1].b[1]: nan is not a finite number"
