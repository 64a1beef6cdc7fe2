"""Each loss and each return of a node is said once; a reader lapses only when it was seen to stand still for long."""

import pytest

from ringrift.cluster.roster import NodeRecord
from ringrift.cluster.silence import lapsed, standing, turn
from ringrift.events import node, reader
from ringrift.kernel.settings import BusSettings
from ringrift.store.ports import ReaderRow

LOST, BACK = node.Lost(node="n", seconds=15.0), node.Recovered(node="n")
SETTINGS = BusSettings(lapse_seconds=1000.0, lapse_seen_seconds=60.0)


@pytest.mark.parametrize(
    ("beat", "gone", "silent", "lost", "said", "kept"),
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
        "it beats", "it fell silent", "it is known to be lost", "a new watcher knows nothing", "it beats again",
        "it came and went", "it has gone", "it took its leave late",
    ],
)  # fmt: skip
def test_a_loss_and_a_return_are_said_once(
    beat: int, gone: bool, silent: bool, lost: dict[str, int], said: tuple[object, ...], kept: dict[str, int]
) -> None:
    """What was said is remembered by the beat at which the node fell silent."""
    record = NodeRecord(id="n", profile="full", address="x", beat=beat, gone=gone)

    found = turn([record], {"n"} if silent else set(), lost, 15.0)

    assert (found.events, found.lost) == (said, kept)


def row(name: str = "r", *, behind: int = 3, since: float | None = 0.0, is_lapsed: bool = False) -> ReaderRow:
    """A reader at position 7."""
    return ReaderRow(reader=name, position=7, lapsed=is_lapsed, behind=behind, since=since)


def test_only_readers_with_something_to_read_are_watched() -> None:
    """One that has taken in everything stands still for a good reason; one that has lapsed needs no watching."""
    rows = [row("waits"), row("level", behind=0, since=None), row("lapsed", is_lapsed=True)]

    assert [(seen.name, seen.mark, seen.seconds) for seen in standing(rows, SETTINGS)] == [("waits", 7, 60.0)]


@pytest.mark.parametrize(("still", "now", "expected"), [((), 5000.0, 0), (("r",), 1000.0, 0), (("r",), 1000.1, 1)])
def test_a_reader_lapses_when_it_was_seen_to_stand_and_its_event_is_old(
    still: tuple[str, ...], now: float, expected: int
) -> None:
    """Neither an old event nor a reader that stands still is enough for itself."""
    said = lapsed([row(), row("other")], still, now, SETTINGS)

    assert said == [reader.Lapsed(reader="r", position=7, seconds=now)] * expected
