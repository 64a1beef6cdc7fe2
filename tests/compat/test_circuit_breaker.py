"""The documented breaker: a key for each thing that may fail, and one answer for all of them without a key."""

import pytest

from ringrift.kernel.errors import SettingsError
from ringrift_compat.health.circuit_breaker import _KEYS_MAX, CircuitBreaker, CircuitState
from unit.kernel.manual_clock import ManualClock


def breaker(clock: ManualClock, **limits: int) -> CircuitBreaker:
    """A breaker as the documents make it."""
    return CircuitBreaker(failure_threshold=3, reset_timeout_seconds=300, clock=clock, **limits)


def fail(circuit: CircuitBreaker, key: str | None, times: int = 3) -> None:
    """Let *key* fail."""
    for _ in range(times):
        circuit.record_failure(key, "exit 13")


def test_without_a_key_any_open_circuit_blocks() -> None:
    """``can_execute()`` is False as soon as one key is open; the other keys go on."""
    circuit = breaker(ManualClock())
    assert circuit.can_execute()

    fail(circuit, "training")

    assert not circuit.can_execute()
    assert not circuit.can_execute("training")
    assert circuit.can_execute("evaluation")
    assert (circuit.state, circuit.get_state("evaluation")) == (CircuitState.OPEN, CircuitState.CLOSED)


def test_half_open_admits_one_call_and_closes_on_success() -> None:
    """After five minutes one call of the key is admitted and decides; a check without a key uses up nothing."""
    clock = ManualClock()
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
    circuit = breaker(ManualClock())
    fail(circuit, None, 2)
    circuit.record_success()
    fail(circuit, None, 2)
    assert circuit.can_execute()

    circuit.record_failure()

    assert not circuit.can_execute()


def test_the_circuits_have_every_key_that_failed() -> None:
    """State, failures in a row, last error and seconds left open; a success forgets a key."""
    clock = ManualClock()
    circuit = breaker(clock)
    fail(circuit, "training")
    circuit.record_failure("sync", "slow")
    clock.seconds += 100.0

    circuits = circuit.get_circuits()

    left = pytest.approx(200.0)
    assert circuits["training"] == {"state": "open", "failures": 3, "last_error": "exit 13", "seconds_left": left}
    assert (circuits["sync"]["state"], circuits["sync"]["failures"]) == ("closed", 1)
    circuit.record_success("training")
    assert set(circuit.get_circuits()) == {"sync"}
    circuit.record_success("sync")
    assert (circuit.get_circuits(), circuit.state) == ({}, CircuitState.CLOSED)


def test_limits_are_checked() -> None:
    """A breaker that opens at no failure is refused, and of too many keys the oldest is forgotten."""
    with pytest.raises(SettingsError):
        CircuitBreaker(failure_threshold=0)
    circuit = breaker(ManualClock())
    for number in range(_KEYS_MAX + 1):
        circuit.record_failure(str(number))

    assert len(circuit.get_circuits()) == _KEYS_MAX
    assert "0" not in circuit.get_circuits()
