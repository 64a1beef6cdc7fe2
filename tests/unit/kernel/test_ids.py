"""Ids sort by time, never meet each other, and what cannot be one is refused."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringrift.kernel.errors import InvalidId
from ringrift.kernel.ids import Ids, check_blob, check_id, check_name, seed_of
from unit.kernel.manual_clock import ManualClock


@settings(max_examples=40)
@given(st.lists(st.floats(min_value=0.0, max_value=5.0), min_size=1, max_size=20))
def test_ids_sort_in_the_order_in_which_they_were_made(steps: list[float]) -> None:
    """Whether the clock moves on or not, later ids of one maker sort after earlier ones."""
    clock = ManualClock()
    ids = Ids(clock, Random(1))
    made = []

    for step in steps:
        clock.seconds += step
        made.append(ids.next())

    assert made == sorted(set(made))


def test_ids_of_different_makers_differ() -> None:
    """Many makers at the same moment make different ids, because each has its own share of chance."""
    clock = ManualClock()
    makers = [Ids(clock, Random(seed)) for seed in range(200)]

    made = [maker.next() for maker in makers for _ in range(5)]

    assert len(set(made)) == 1000


def test_ids_of_a_later_time_sort_after_those_of_any_maker() -> None:
    """A millisecond later every maker's ids sort after all earlier ones."""
    clock = ManualClock()
    makers = [Ids(clock, Random(seed)) for seed in range(20)]

    before = [maker.next() for maker in makers]
    clock.seconds += 0.001
    after = [maker.next() for maker in makers]

    assert max(before) < min(after)


def test_the_same_clock_and_seed_make_the_same_ids() -> None:
    """A run can be repeated: ids come from the clock and the seed alone."""
    first, second = (Ids(ManualClock(), Random(3)) for _ in range(2))

    assert [first.next() for _ in range(3)] == [second.next() for _ in range(3)]


def test_ids_of_ours_pass_our_own_check() -> None:
    """Every id that we make is accepted."""
    made = Ids(ManualClock(), Random(1)).next()

    assert check_id("event", made) == made
    assert len(made) == 24


@pytest.mark.parametrize("good", ["a", "A-b_9", "x" * 64, "-", "0"])
def test_check_id_returns_a_valid_id(good: str) -> None:
    """Letters, digits, dash and underline, up to 64 of them, are an id."""
    assert check_id("node", good) == good


@pytest.mark.parametrize("bad", ["", "x" * 65, "a b", "a\n", "a.b", "ä", "a\x00", "a\r\nb", "../a", "*"])
def test_check_id_refuses_an_invalid_id(bad: str) -> None:
    """Blanks, line ends, control characters, foreign letters, paths and wildcards are refused by name."""
    with pytest.raises(InvalidId) as refused:
        check_id("node.id", bad)

    assert (refused.value.what, refused.value.value) == ("node.id", bad)
    assert str(refused.value).startswith("node.id ")


@pytest.mark.parametrize("good", ["a", "selfplay.batch_finished", "SYNC_DONE", "x" * 128])
def test_check_name_returns_a_valid_name(good: str) -> None:
    """Names begin with a letter and go on with letters, digits, underlines and dots."""
    assert check_name("event", good) == good


@pytest.mark.parametrize(
    "bad", ["", "x" * 129, "1a", ".a", "_a", "ev.*", "ev.>", "ü", "a b", "a\r\n", "a\n", "a-b", "\x00"]
)
def test_check_name_refuses_an_invalid_name(bad: str) -> None:
    """Wildcards, blanks, line ends and foreign letters never reach a transport."""
    with pytest.raises(InvalidId, match=r"^event .*is not valid: use a letter and"):
        check_name("event", bad)


@pytest.mark.parametrize("bad", ["", "a" * 63, "a" * 65, "A" * 64, "g" * 64, "a" * 64 + "\n", "../" + "a" * 61])
def test_check_blob_refuses_an_invalid_hash(bad: str) -> None:
    """Only 64 small hexadecimal digits name a blob, so no name can lead out of the folder."""
    with pytest.raises(InvalidId, match=r"^blob "):
        check_blob(bad)


def test_check_blob_returns_a_hash() -> None:
    """A hash passes as it is."""
    assert check_blob("0123456789abcdef" * 4) == "0123456789abcdef" * 4


def test_a_refusal_shows_only_the_beginning_of_a_long_value() -> None:
    """A megabyte of rubbish does not become a megabyte of log."""
    with pytest.raises(InvalidId) as refused:
        check_id("node", "x" * 1_000_000)

    assert len(str(refused.value)) < 200


def test_a_seed_is_the_same_everywhere() -> None:
    """A seed depends on its parts alone, and is fixed here so that no version changes it."""
    assert seed_of(0, "hex8_2p", "play", 1) == 5801533121180504719
    assert seed_of("a", "b") != seed_of("ab")


@settings(max_examples=40)
@given(st.lists(st.one_of(st.integers(), st.text(st.characters(codec="utf-8"))), max_size=4))
def test_a_seed_fits_into_63_bits(parts: list[object]) -> None:
    """For any inputs, a seed is a number that the store and every workload can hold."""
    assert 0 <= seed_of(*parts) < 2**63
