"""A daemon has one shape, gets its parts by name, and starts after its predecessors."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringrift.events.node import Joined, Left
from ringrift.kernel.errors import SettingsError, Unbound
from ringrift.kernel.health import Health
from ringrift.kernel.settings import Settings, WorkSettings
from ringrift.supervision.spec import _STOP_MARGIN_SECONDS, Daemon, in_order
from unit.supervision.watched import stop_seconds_max


async def duty(event: object = None, *, store: str, clock: str) -> tuple[object, str, str]:
    """A body that returns its parts."""
    return event, store, clock


def daemon(name: str, *after: str) -> Daemon:
    """Return a daemon that starts after *after*."""
    return Daemon(name=name, run=duty, every=1.0, after=after)


@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"every": 1.0, "serve": True},
        {"every": 1.0, "on": (Joined,)},
        {"on": (Joined,), "serve": True},
        {"every": 0.0, "on": (Joined,), "serve": True},
        {"serve": True, "process": ("true",)},
    ],
)
def test_a_daemon_has_exactly_one_shape(shape: dict[str, Any]) -> None:
    """None, two or three of every, on and serve are refused when the daemon is declared."""
    with pytest.raises(
        SettingsError, match=r"daemon watch \d is not valid: has exactly one of every, on, serve, process"
    ):
        Daemon(name="watch", run=duty, **shape)


@pytest.mark.parametrize("shape", [{"every": 1.0}, {"every": "work.slots"}, {"on": (Joined, Left)}, {"serve": True}])
def test_each_shape_is_a_shape(shape: dict[str, Any]) -> None:
    """Seconds, the name of a setting, events, or serving make a daemon."""
    assert Daemon(name="watch", run=duty, **shape).name == "watch"


def test_a_program_is_a_shape_without_a_body() -> None:
    """A process has no function to run here, and every other shape must have one."""
    assert Daemon(name="watch", process=("true",)).run is None
    for bad in ({"run": duty, "process": ("true",)}, {"serve": True}):
        with pytest.raises(SettingsError, match="a body to run, or is a process, and not both"):
            Daemon(name="watch", **bad)  # type: ignore[arg-type]  # wrong on purpose


def test_a_program_has_no_role() -> None:
    """It could not know when the role has gone to another node."""
    with pytest.raises(SettingsError, match="a program cannot be bound to a role"):
        Daemon(name="watch", process=("true",), role="watch")


def test_an_unknown_category_is_named() -> None:
    """Lists group by category, so a slip of the pen must not make a new one."""
    with pytest.raises(SettingsError, match=r"'sink'.*categories are core, sync"):
        Daemon(name="watch", run=duty, serve=True, category="sink")


def test_an_unknown_profile_is_named() -> None:
    """A daemon cannot be for a kind of node that does not exist."""
    with pytest.raises(SettingsError, match=r"\['workers'\].*profiles are coordinator"):
        Daemon(name="watch", run=duty, serve=True, profiles=frozenset({"full", "workers"}))


def test_a_body_gets_its_parts_by_name() -> None:
    """Binding fills keyword-only parameters and leaves the event to the caller."""
    body = daemon("watch").bind({"store": "the store", "clock": "the clock", "unused": 1})

    with pytest.raises(StopIteration) as ended:
        body("an event").__await__().send(None)

    assert ended.value.value == ("an event", "the store", "the clock")


def test_a_daemon_has_its_own_memory() -> None:
    """Body and check share one object, and another node has another; a daemon without memory has no such part."""

    async def body(*, memory: list[int]) -> list[int]:
        return memory

    async def check(*, memory: list[int]) -> Health:
        raise AssertionError(memory)

    spec = Daemon(name="watch", run=body, check=check, every=1.0, memory=list)
    here, there = spec.own_parts({}), spec.own_parts({})

    assert here["memory"] is not there["memory"]
    assert spec.bind(here).keywords["memory"] is spec.bind_check(here).keywords["memory"] is here["memory"]
    with pytest.raises(Unbound, match="'memory'"):
        Daemon(name="watch", run=body, every=1.0).bind(daemon("other").own_parts({}))


def test_a_part_that_no_node_has_is_named() -> None:
    """A wrong name fails at once, with daemon and part."""
    with pytest.raises(Unbound) as unbound:
        daemon("watch").bind({"store": 1})

    assert (unbound.value.daemon, unbound.value.part) == ("watch", "clock")
    assert (
        str(unbound.value) == "daemon 'watch' asks for 'clock', which no node has: use a field of Node, alive or memory"
    )


def test_daemons_start_after_those_they_name() -> None:
    """Order follows after, and otherwise the list."""
    ordered = in_order([daemon("c", "a"), daemon("b"), daemon("a"), daemon("d", "c", "b")])

    assert [spec.name for spec in ordered] == ["b", "a", "c", "d"]


def test_an_absent_predecessor_is_not_waited_for() -> None:
    """A predecessor of a daemon may be missing in this profile."""
    assert [spec.name for spec in in_order([daemon("a", "elsewhere")])] == ["a"]


@pytest.mark.parametrize("circle", [[("a", "a")], [("a", "b"), ("b", "a")], [("a", "c"), ("b", "a"), ("c", "b")]])
def test_a_circle_is_refused(circle: list[tuple[str, str]]) -> None:
    """Daemons that wait for each other would never start, and the error names them."""
    with pytest.raises(SettingsError, match="start after each other in a circle") as refused:
        in_order([daemon(name, after) for name, after in circle])

    assert set(refused.value.value) == {name for name, _ in circle}


def test_a_hard_need_starts_first_and_must_exist() -> None:
    """A need orders like after; without it nothing starts, and the error names both."""
    needy = Daemon(name="a", run=duty, every=1.0, needs=("b",))

    assert [spec.name for spec in in_order([needy, daemon("b")])] == ["b", "a"]
    with pytest.raises(SettingsError, match=r"daemon a 'b' is not valid: it needs this daemon"):
        in_order([needy, daemon("c")])


def test_the_time_to_stop_is_that_of_the_longest_row() -> None:
    """A daemon waits for those that started after it, so their limits add up; the others stop meanwhile."""
    slow = Daemon(name="slow", run=duty, every=1.0, stop_seconds_max=30.0)
    last = Daemon(name="last", run=duty, every=1.0, stop_seconds_max=5.0, after=("a",), needs=("slow",))

    assert stop_seconds_max([], Settings()) == 0.0
    assert stop_seconds_max([daemon("a"), slow], Settings()) == 30.0
    assert stop_seconds_max([last, daemon("a"), slow], Settings()) == 35.0


def test_the_time_to_stop_may_stand_in_the_settings() -> None:
    """The dotted name of a setting is its seconds, and a little more to end in good order."""
    named = Daemon(name="named", run=duty, every=1.0, stop_seconds_max="work.grace_seconds")

    assert named.stop_seconds(Settings(work=WorkSettings(grace_seconds=7.0))) == 7.0 + _STOP_MARGIN_SECONDS
    assert daemon("a").stop_seconds(Settings()) == 10.0


def test_two_daemons_cannot_share_a_name() -> None:
    """A name stands for one daemon."""
    with pytest.raises(SettingsError, match="names must differ"):
        in_order([daemon("a"), daemon("b"), daemon("a")])


@settings(max_examples=30)
@given(st.permutations(range(6)), st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=8))
def test_every_acyclic_order_is_satisfied(listed: list[int], wishes: set[tuple[int, int]]) -> None:
    """For every list in every order, each daemon comes once and after those it names."""
    after = {number: [low for high, low in wishes if high == number and low < high] for number in listed}

    ordered = [spec.name for spec in in_order([daemon(str(n), *map(str, after[n])) for n in listed])]

    assert sorted(ordered) == [str(number) for number in range(6)]
    for number in listed:
        assert all(ordered.index(str(low)) < ordered.index(str(number)) for low in after[number])
