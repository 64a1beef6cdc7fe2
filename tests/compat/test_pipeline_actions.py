"""The documented stages: each stage of a line has a documented name, and boards are known under theirs."""

import inspect

import pytest

from ringrift.kernel.errors import InvalidId
from ringrift.pipeline.line import Stage
from ringrift.pipeline.request import AFTER
from ringrift_compat import pipeline_actions, stages
from ringrift_compat.levels import BoardType
from ringrift_compat.stages import PipelineStage, variant_of

ACTIONS = (stages.SYNC, stages.EXPORT, stages.TRAIN, stages.EVALUATE, stages.PROMOTE)


def test_every_stage_of_a_line_is_shown() -> None:
    """The view of a line has a word for wherever it stands."""
    assert set(stages.SHOWN) == set(Stage)
    assert [stage.value for stage in PipelineStage] == [
        "idle", "selfplay", "data_sync", "npz_export", "npz_combination", "training", "evaluation", "promotion",
        "complete",
    ]  # fmt: skip


def test_every_stage_that_can_be_asked_for_has_its_action() -> None:
    """The five requests that a line answers are the five actions, each with the limit of the documents."""
    assert [action.asked for action in ACTIONS] == list(AFTER)
    assert [action.seconds_max for action in ACTIONS] == [1800, 3600, 86_400, 7200, 600]
    for name in ("data_sync", "npz_export", "training", "evaluation", "promotion"):
        action = getattr(pipeline_actions, f"trigger_{name}")
        assert inspect.iscoroutinefunction(action)
        assert list(inspect.signature(action).parameters)[:3] == ["board_type", "num_players", "iteration"]


@pytest.mark.parametrize(
    ("board", "variant"),
    [("hex8", "hex8_2p"), (BoardType.SQUARE19, "square19_2p"), ("sq8", "square8_2p"), ("ludo", "ludo_2p")],
)
def test_boards_are_known_under_all_their_names(board: object, variant: str) -> None:
    """A member, a name, a short name, and a board of one's own."""
    assert variant_of(board, 2) == variant


def test_what_is_no_board_is_refused() -> None:
    """Before anything is opened or asked for."""
    for board, players in (("no board", 2), ("hex8", 0), ("", 2)):
        with pytest.raises(InvalidId):
            variant_of(board, players)
