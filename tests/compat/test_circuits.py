"""The documented breaker: a key for each thing that may fail, and one answer for all of them without a key."""

import pytest

from ringrift.kernel.errors import InputError, SettingsError
from ringrift_compat.circuits import KEYS_MAX, CircuitBreaker, CircuitState
from unit.kernel.hand import HandClock


def breaker(clock: HandClock, **limits: int) -> CircuitBreaker:
    """A breaker as the documents make it."""
    return CircuitBreaker(failure_threshold=3, reset_timeout_seconds=300, clock=clock, **limits)


def fail(circuit: CircuitBreaker, key: str | None, times: int = 3) -> None:
    """Let *key* fail."""
    for _ in range(times):
        circuit.record_failure(key, "exit 13")


def test_without_a_key_any_open_one_closes_the_way() -> None:
    """``can_execute()`` is False as soon as one key is open; the other keys go on."""
    circuit = breaker(HandClock())
    assert circuit.can_execute()

    fail(circuit, "training")

    assert not circuit.can_execute()
    assert not circuit.can_execute("training")
    assert circuit.can_execute("evaluation")
    assert (circuit.state, circuit.get_state("evaluation")) == (CircuitState.OPEN, CircuitState.CLOSED)


def test_half_open_lets_one_through_and_closes_on_success() -> None:
    """After five minutes one try of the key may show that all is well; without a key nothing is taken."""
    clock = HandClock()
    circuit = breaker(clock)
    fail(circuit, "training")
    clock.seconds += 300.0

    assert circuit.state is CircuitState.HALF_OPEN
    assert circuit.can_execute()
    assert [circuit.can_execute("training") for _ in range(2)] == [True, False]
    assert not circuit.can_execute()
    circuit.record_success("training")
    assert (circuit.state, circuit.can_execute("training")) == (CircuitState.CLOSED, True)


def test_failures_and_successes_need_no_key() -> None:
    """One that guards a single thing is used without any."""
    circuit = breaker(HandClock())
    fail(circuit, None, 2)
    circuit.record_success()
    fail(circuit, None, 2)
    assert circuit.can_execute()

    circuit.record_failure()

    assert not circuit.can_execute()


def test_the_status_tells_of_every_key() -> None:
    """State, failures in a row, last error and how long it stays open; a reset forgets one key or all."""
    clock = HandClock()
    circuit = breaker(clock)
    fail(circuit, "training")
    circuit.record_failure("sync", "slow")
    clock.seconds += 100.0

    told = circuit.get_status()

    assert told["state"] == "open"
    assert told["circuits"]["training"] == {
        "state": "open", "failures": 3, "last_error": "exit 13", "seconds_left": pytest.approx(200.0),
    }  # fmt: skip
    assert (told["circuits"]["sync"]["state"], told["circuits"]["sync"]["failures"]) == ("closed", 1)
    circuit.reset("training")
    assert set(circuit.get_status()["circuits"]) == {"sync"}
    circuit.reset()
    assert circuit.get_status() == {"state": "closed", "circuits": {}}


def test_limits_are_checked() -> None:
    """A breaker that opens at no failure is refused, and so are keys without end."""
    with pytest.raises(SettingsError):
        CircuitBreaker(failure_threshold=0)
    circuit = breaker(HandClock())
    for number in range(KEYS_MAX):
        circuit.record_success(str(number))
    with pytest.raises(InputError):
        circuit.record_success("one more")
