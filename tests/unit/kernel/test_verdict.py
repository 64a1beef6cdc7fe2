"""A verdict remembers since when it has been so."""

import msgspec
import pytest

from ringrift.kernel.verdict import Verdict

BEFORE = Verdict(gate="collecting", allowed=False, rule="games since the last export", value=3, limit=10, since=100.0)


def test_a_wait_that_goes_on_keeps_its_beginning() -> None:
    """When only value, limit and end have moved, the verdict dates from when the wait began."""
    now = msgspec.structs.replace(BEFORE, value=7, limit=12, since=200.0, until=300.0)

    dated = now.with_since_of(BEFORE)

    assert dated == msgspec.structs.replace(now, since=100.0)


@pytest.mark.parametrize("change", [{"allowed": True}, {"rule": "another"}, {"gate": "fill"}])
def test_a_wait_of_another_kind_begins_now(change: dict[str, object]) -> None:
    """A verdict that differs in gate, rule or answer is a new one."""
    now = msgspec.structs.replace(BEFORE, since=200.0, **change)

    assert now.with_since_of(BEFORE) is now


def test_the_first_verdict_begins_now() -> None:
    """Without an earlier verdict there is nothing to date back to."""
    assert BEFORE.with_since_of(None) is BEFORE


def test_a_verdict_reads_as_a_sentence() -> None:
    """People see the gate, whether it waits, the rule, and how far it is."""
    assert str(BEFORE) == "collecting: waits — games since the last export: 3 of 10"
    assert str(msgspec.structs.replace(BEFORE, allowed=True, value=10)).startswith("collecting: open")
