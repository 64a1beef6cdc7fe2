"""The state of a delivery after a failure and after a success."""

import pytest

from ringrift.bus.dead_letters import _ERROR_CHARACTERS_MAX, after_attempt
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.errors import Discard, InvalidPayload, LoopDetected, Retry, TimedOut
from ringrift.kernel.settings import BusSettings
from ringrift.store.ports import Delivery

BACKOFF = BusSettings().redelivery
NOW = 50.0


def delivery(attempts: int, state: str = "parked") -> Delivery:
    """A delivery after so many attempts."""
    return Delivery(
        reader="r", position=7, state=state, attempts=attempts, pause=60.0, error="before", first=3.0, last=4.0
    )


def failed(error: Exception, before: Delivery | None = None, backoff: Backoff = BACKOFF) -> Delivery:
    """The delivery after *error*."""
    return after_attempt(before or Delivery(reader="r", position=7), error, NOW, backoff)


def test_a_first_failure_is_parked() -> None:
    """It is parked for a minute, with its error and the time of the first failure."""
    result = failed(ValueError("no"))

    assert result == Delivery(
        reader="r", position=7, state="parked", attempts=1, pause=60.0, error="ValueError: no", first=NOW, last=NOW
    )


@pytest.mark.parametrize(
    ("attempts", "state", "pause"),
    [(1, "parked", 120.0), (2, "parked", 240.0), (3, "parked", 480.0), (4, "dead", 0.0), (5, "dead", 0.0)],
)
def test_attempts_are_limited(attempts: int, state: str, pause: float) -> None:
    """Each failure doubles the pause; the fifth is the last, and the time of the first one stays."""
    result = failed(ValueError("again"), delivery(attempts))

    assert (result.state, result.pause, result.attempts) == (state, pause, attempts + 1)
    assert (result.first, result.last, result.error) == (3.0, NOW, "ValueError: again")


def test_a_pause_is_an_hour_at_most() -> None:
    """With more attempts the pause grows from a minute to an hour and no further."""
    many = Backoff(first_seconds=60.0, seconds_max=3600.0, tries=10)

    pauses = [failed(ValueError(), delivery(attempts), many).pause for attempts in range(9)]

    assert pauses == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]


def test_retry_sets_the_pause_but_not_the_number() -> None:
    """A handler that requests a later retry gets it then, except after the last attempt."""
    first, last = failed(Retry(after=5.0)), failed(Retry(after=5.0), delivery(4))

    assert (first.state, first.pause, first.attempts) == ("parked", 5.0, 1)
    assert (last.state, last.pause, last.attempts) == ("dead", 0.0, 5)


def test_retry_at_once_is_no_pause() -> None:
    """A retry after 0 s is due at once."""
    assert (failed(Retry(after=0.0)).state, failed(Retry(after=0.0)).pause) == ("parked", 0.0)


@pytest.mark.parametrize("attempts", [0, 2, 4])
def test_discard_is_final(attempts: int) -> None:
    """A handler that discards an event with a reason gets no retry, whatever the number of attempts."""
    result = failed(Discard("not ours"), delivery(attempts))

    assert (result.state, result.pause) == ("discarded", 0.0)
    assert "not ours" in result.error


@pytest.mark.parametrize("attempts", [0, 2])
def test_a_loop_is_dead_at_once(attempts: int) -> None:
    """An event that would cause itself again is not retried, and the error gives the reason."""
    result = failed(LoopDetected("data.lost", 32), delivery(attempts))

    assert (result.state, result.pause) == ("dead", 0.0)
    assert "LoopDetected" in result.error


def test_other_invalid_input_is_retried() -> None:
    """Among our input errors only a loop is final: a later version may read what this one cannot."""
    assert failed(InvalidPayload("$.blob", "is no text")).state == "parked"


def test_a_replayed_delivery_has_all_its_attempts() -> None:
    """A delivery that was parked by a replay counts its attempts from zero."""
    result = failed(ValueError("no"), delivery(0))

    assert (result.attempts, result.pause) == (1, 60.0)


def test_any_error_can_be_printed() -> None:
    """An error is stored by type and text, however long, empty, or unprintable."""
    long, odd = failed(ValueError("x" * 10_000)), failed(OSError("caf\udce9\x00"))

    assert len(long.error) == _ERROR_CHARACTERS_MAX
    assert odd.error.encode().decode() == odd.error
    assert "\x00" not in odd.error
    assert failed(ValueError()).error == "ValueError"
    assert failed(TimedOut("r", 600.0)).error.split(".")[-1].startswith("TimedOut: r took longer than 600 s")


def test_a_success_settles_a_delivery() -> None:
    """A recovered delivery is done, has one more attempt, no error and no pause, and the time of its first failure."""
    assert after_attempt(delivery(2), None, NOW, BACKOFF) == Delivery(
        reader="r", position=7, state="done", attempts=3, pause=0.0, error="", first=3.0, last=NOW
    )
