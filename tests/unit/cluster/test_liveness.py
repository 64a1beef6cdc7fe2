"""Each loss and each return of a node is published once; a reader lapses only after it was observed to stand still."""

import pytest

from ringrift.cluster.liveness import _Stall, count_stalls, node_changes, reader_observations
from ringrift.cluster.roster import NodeRecord
from ringrift.events import node, reader
from ringrift.kernel.settings import BusSettings
from ringrift.store.ports import ReaderRow

LOST, BACK = node.Lost(node="n", seconds=15.0), node.Recovered(node="n")
SETTINGS = BusSettings(lapse_seconds=1000.0, lapse_watch_seconds=60.0)


@pytest.mark.parametrize(
    ("beat", "gone", "silent", "lost", "events", "remembered"),
    [
        (7, False, False, {}, (), {}),
        (7, False, True, {}, (LOST,), {"n": 7}),
        (7, False, True, {"n": 7}, (), {"n": 7}),
        (7, False, False, {"n": 7}, (), {"n": 7}),
        (8, False, False, {"n": 7}, (BACK,), {}),
        (8, False, True, {"n": 7}, (BACK,), {}),
        (7, True, False, {}, (), {}),
        (7, True, False, {"n": 7}, (), {}),
    ],
    ids=[
        "it beats",
        "it fell silent",
        "it is known to be lost",
        "a new watcher knows nothing",
        "it beats again",
        "it came and went",
        "it has gone",
        "it took its leave late",
    ],
)
def test_a_loss_and_a_return_are_published_once(
    beat: int, gone: bool, silent: bool, lost: dict[str, int], events: tuple[object, ...], remembered: dict[str, int]
) -> None:
    """The published loss is remembered by the beat at which the node fell silent."""
    record = NodeRecord(id="n", profile="full", address="x", beat=beat, gone=gone)

    changes, still_lost = node_changes([record], {"n": 15.0} if silent else {}, lost)

    assert (tuple(changes), still_lost) == (events, remembered)


def row(name: str = "r", *, behind: int = 3, since: float | None = 0.0, is_lapsed: bool = False) -> ReaderRow:
    """A reader at position 7."""
    return ReaderRow(reader=name, position=7, lapsed=is_lapsed, behind=behind, since=since)


def test_only_readers_with_something_to_read_are_watched() -> None:
    """A reader at the end of the log stands still for a good reason; one that has lapsed needs no watching."""
    rows = [row("waits"), row("level", behind=0, since=None), row("lapsed", is_lapsed=True)]

    [observation] = reader_observations(rows, {}, SETTINGS)
    [again] = reader_observations(rows, {"waits": _Stall(position=7, times=1)}, SETTINGS)

    assert (observation.name, observation.seconds) == ("waits", 60.0)
    assert again.counter != observation.counter, "a stall that was counted is watched anew"
    assert reader_observations(rows, {"waits": _Stall(position=6, times=1)}, SETTINGS) == [observation]


@pytest.mark.parametrize(
    ("stalls", "still", "times", "lapses"),
    [
        ({}, (), 0, False),
        ({}, ("r",), 1, False),
        ({"r": _Stall(position=7, times=15)}, (), 15, False),
        ({"r": _Stall(position=7, times=15)}, ("r",), 16, False),
        ({"r": _Stall(position=7, times=16)}, ("r",), 17, True),
        ({"r": _Stall(position=6, times=16)}, ("r",), 1, False),
    ],
)
def test_a_reader_lapses_after_so_many_stalls_at_one_position(
    stalls: dict[str, _Stall], still: tuple[str, ...], times: int, lapses: bool
) -> None:
    """Seventeen times 60 s are more than 1000 s; a reader that has moved begins anew."""
    lapsed, counts = count_stalls([row(), row("other")], stalls, still, SETTINGS)

    assert lapsed == [reader.Lapsed(reader="r", position=7, seconds=60.0 * times)] * lapses
    assert counts == ({"r": _Stall(position=7, times=times)} if times and not lapses else {})
