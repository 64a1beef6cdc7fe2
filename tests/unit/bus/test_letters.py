"""What becomes of a delivery that failed."""

import pytest

from ringrift.bus.letters import ERROR_CHARACTERS_MAX, judge, recovered
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.errors import Discard, InvalidPayload, LoopDetected, Retry, TimedOut
from ringrift.kernel.settings import BusSettings
from ringrift.store.ports import Delivery

BACKOFF = BusSettings().redelivery
NOW = 50.0


def letter(attempts: int, state: str = "parked") -> Delivery:
    """A letter after so many tries."""
    return Delivery(
        reader="r", position=7, state=state, attempts=attempts, pause=60.0, error="before", first=3.0, last=4.0
    )


def judged(wrong: Exception, before: Delivery | None = None, backoff: Backoff = BACKOFF) -> Delivery:
    """What *wrong* makes of it."""
    return judge(before, "r", 7, wrong, NOW, backoff)


def test_a_first_failure_is_parked() -> None:
    """It waits for a minute, with its error and the time it began."""
    found = judged(ValueError("no"))

    assert found == Delivery(
        reader="r", position=7, state="parked", attempts=1, pause=60.0, error="ValueError: no", first=NOW, last=NOW
    )


@pytest.mark.parametrize(
    ("attempts", "state", "pause"),
    [(1, "parked", 120.0), (2, "parked", 240.0), (3, "parked", 480.0), (4, "dead", 0.0), (5, "dead", 0.0)],
)
def test_tries_have_an_end(attempts: int, state: str, pause: float) -> None:
    """Each failure doubles the pause; the fifth is the last, and the letter remembers when it all began."""
    found = judged(ValueError("again"), letter(attempts))

    assert (found.state, found.pause, found.attempts) == (state, pause, attempts + 1)
    assert (found.first, found.last, found.error) == (3.0, NOW, "ValueError: again")


def test_a_pause_is_an_hour_at_most() -> None:
    """With more tries the pause grows from a minute to an hour and no further."""
    many = Backoff(first_seconds=60.0, seconds_max=3600.0, tries=10)

    pauses = [judged(ValueError(), letter(attempts), many).pause for attempts in range(9)]

    assert pauses == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]


def test_retry_sets_the_pause_but_not_the_number() -> None:
    """Who asks for another try in a while gets it then, except for the last."""
    first, last = judged(Retry(after=5.0)), judged(Retry(after=5.0), letter(4))

    assert (first.state, first.pause, first.attempts) == ("parked", 5.0, 1)
    assert (last.state, last.pause, last.attempts) == ("dead", 0.0, 5)


def test_retry_at_once_is_no_pause() -> None:
    """A retry after no time at all waits for nothing but its turn."""
    assert (judged(Retry(after=0.0)).state, judged(Retry(after=0.0)).pause) == ("parked", 0.0)


@pytest.mark.parametrize("attempts", [0, 2, 4])
def test_discard_ends_the_matter(attempts: int) -> None:
    """Who discards an event with a reason ends it there, whatever the tries."""
    found = judged(Discard("not ours"), letter(attempts))

    assert (found.state, found.pause) == ("discarded", 0.0)
    assert "not ours" in found.error


@pytest.mark.parametrize("attempts", [0, 2])
def test_a_loop_is_dead_at_once(attempts: int) -> None:
    """An event that would cause itself again is not tried again, and the reason says so."""
    found = judged(LoopDetected("data.lost", 32), letter(attempts))

    assert (found.state, found.pause) == ("dead", 0.0)
    assert "LoopDetected" in found.error


def test_other_bad_input_is_tried_again() -> None:
    """Of our input errors only a loop is hopeless: a later version may read what this one cannot."""
    assert judged(InvalidPayload("$.blob", "is no text")).state == "parked"


def test_a_replayed_letter_begins_anew() -> None:
    """A letter that was put there by hand, without a try so far, has all its tries."""
    found = judged(ValueError("no"), letter(0))

    assert (found.attempts, found.pause) == (1, 60.0)


def test_any_error_can_be_told() -> None:
    """An error is told by kind and text, however long, empty, or unprintable."""
    long, odd = judged(ValueError("x" * 10_000)), judged(OSError("caf\udce9\x00"))

    assert len(long.error) == ERROR_CHARACTERS_MAX
    assert odd.error.encode().decode() == odd.error
    assert "\x00" not in odd.error
    assert judged(ValueError()).error == "ValueError"
    assert judged(TimedOut("r", 600.0)).error.endswith("TimedOut: r took longer than 600 s")


def test_a_success_settles_a_letter() -> None:
    """A recovered letter is done, has one more try, no error and no pause, and keeps its beginning."""
    assert recovered(letter(2), NOW) == Delivery(
        reader="r", position=7, state="done", attempts=3, pause=0.0, error="", first=3.0, last=NOW
    )
