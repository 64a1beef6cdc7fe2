"""Each loss and each return of a node is published once; a reader lapses only after it was observed to stand still."""

import pytest

from ringrift.cluster.liveness import lapsed_readers, node_changes, reader_observations
from ringrift.cluster.roster import NodeRecord
from ringrift.events import node, reader
from ringrift.kernel.settings import BusSettings
from ringrift.kernel.stall_detector import Observation
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

    changes, still_lost = node_changes([record], {"n"} if silent else set(), lost, 15.0)

    assert (tuple(changes), still_lost) == (events, remembered)


def row(name: str = "r", *, behind: int = 3, since: float | None = 0.0, is_lapsed: bool = False) -> ReaderRow:
    """A reader at position 7."""
    return ReaderRow(reader=name, position=7, lapsed=is_lapsed, behind=behind, since=since)


def test_only_readers_with_something_to_read_are_watched() -> None:
    """A reader at the end of the log stands still for a good reason; one that has lapsed needs no watching."""
    rows = [row("waits"), row("level", behind=0, since=None), row("lapsed", is_lapsed=True)]

    assert reader_observations(rows, SETTINGS) == [Observation(name="waits", counter=7, seconds=60.0)]


@pytest.mark.parametrize(("still", "now", "expected"), [((), 5000.0, 0), (("r",), 1000.0, 0), (("r",), 1000.1, 1)])
def test_a_reader_lapses_when_it_stands_still_and_its_event_is_old(
    still: tuple[str, ...], now: float, expected: int
) -> None:
    """Neither an old event nor a reader that stands still is enough for itself."""
    events = lapsed_readers([row(), row("other")], still, now, SETTINGS)

    assert events == [reader.Lapsed(reader="r", position=7, seconds=now)] * expected
