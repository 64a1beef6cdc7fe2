"""A line lists its needs, and is checked for its invariants."""

from typing import Any

import msgspec
import pytest

from ringrift.events.evaluation import Block
from ringrift.kernel.settings import Gate
from ringrift.pipeline.line import Ancestor, Batch, Candidate, Challenge, Line, Stage, _BatchCounts, check, needed_blobs
from unit.pipeline.story import VARIANT, at, blob

SOUND = Line(variant=VARIANT, workload="fake", players=2, stage=Stage.COLLECTING, champion=blob("c"), generation=0)
BATCH = Batch(blob=blob("b"), games=10)
CANDIDATE = Candidate(model=blob("m"), generation=1)


def with_blocks(*numbers: int, opponent: str = "c") -> Candidate:
    """Return a candidate with blocks of these numbers, of which two were requested."""
    blocks = tuple(Block(number=number, scores=(1.0, 0.0)) for number in numbers)
    test = Challenge(opponent=blob(opponent), gate=Gate(), seed=1, dispatched=2, blocks=blocks)
    return msgspec.structs.replace(CANDIDATE, challenge=test)


@pytest.mark.parametrize(
    "changes",
    [
        {"counts": _BatchCounts(batches=1)},
        {"counts": _BatchCounts(batches=1, stored=1, games=10, games_kept=9)},
        {"pending": (BATCH,)},
        {"fresh": -1},
        {"pending": (BATCH,), "window": (BATCH,), "counts": _BatchCounts(batches=2, stored=1, games=20, games_kept=10)},
        {"window": (BATCH, BATCH)},
        {"champion": None},
        {"generation": -1},
        {"candidate": CANDIDATE},
        {"stage": Stage.EVALUATING},
        {"stage": Stage.VERIFYING},
        {"champion": None, "generation": -1},
        {"stage": Stage.EVALUATING, "candidate": with_blocks(1, 0)},
        {"stage": Stage.EVALUATING, "candidate": with_blocks(0, 0)},
        {"stage": Stage.EVALUATING, "candidate": with_blocks(2)},
        {"stage": Stage.EVALUATING, "candidate": with_blocks(0, opponent="another")},
        {"stage": Stage.VERIFYING, "candidate": with_blocks(0)},
        {"ancestors": (Ancestor(model=blob("a"), generation=0),) * 9},
    ],
)
def test_an_unsound_line_does_not_pass(changes: dict[str, Any]) -> None:
    """Each thing that must be true of a line is noticed when it is not."""
    check(SOUND)

    with pytest.raises(AssertionError):
        check(msgspec.structs.replace(SOUND, **changes))


def test_a_line_needs_its_models_its_window_and_its_samples() -> None:
    """Copies are kept of the champion, the one before it, the candidate, the window and the samples in use."""
    line = at(Stage.VERIFYING, rounds=1).line
    assert line.candidate is not None

    expected = needed_blobs(line)

    models = {line.champion, line.previous, line.candidate.model}
    assert {blob for blob, kind in expected.items() if kind == "model"} == models
    assert {blob for blob, kind in expected.items() if kind == "games"} == {batch.blob for batch in line.window}
    assert {blob for blob, kind in expected.items() if kind == "samples"} == {line.samples}


def test_a_new_line_needs_nothing() -> None:
    """Before generation 0 there is nothing to keep."""
    assert needed_blobs(at(Stage.STARTING).line) == {}


def test_games_that_wait_are_not_yet_needed() -> None:
    """A batch that has only one copy is under its own Sync job and not requested twice."""
    story = at(Stage.COLLECTING)
    story.finish("play")

    assert story.line.pending[0].blob not in needed_blobs(story.line)


def test_a_line_survives_the_store() -> None:
    """Every stage's line is read back as it was written."""
    for stage in Stage:
        if stage is not Stage.RESTING:
            line = at(stage).line
            assert msgspec.json.decode(msgspec.json.encode(line), type=Line) == line
