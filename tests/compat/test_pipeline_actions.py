"""The documented stages: each stage of a line has a documented name, and boards have theirs."""

import inspect

import pytest

from ringrift.kernel.errors import InvalidId
from ringrift.pipeline.line import Stage
from ringrift.pipeline.requests import STAGES
from ringrift_compat.pipeline import pipeline_actions
from ringrift_compat.pipeline.orchestrator import _STAGE_NAMES
from ringrift_compat.pipeline.pipeline_actions import _ACTIONS, variant_of
from ringrift_compat.types import BoardType


def test_every_stage_of_a_line_has_a_documented_name() -> None:
    """The status has a name for every stage."""
    assert set(_STAGE_NAMES) == set(Stage)


def test_every_requestable_stage_has_its_action() -> None:
    """The five requests that a line accepts are the five actions, each with the documented limit."""
    assert [action.request for action in _ACTIONS] == list(STAGES)
    assert [action.seconds_max for action in _ACTIONS] == [1800, 3600, 86_400, 7200, 600]
    for action in _ACTIONS:
        trigger = getattr(pipeline_actions, f"trigger_{action.stage}")
        assert trigger.__name__ == f"trigger_{action.stage}"
        assert inspect.iscoroutinefunction(trigger)
        assert list(inspect.signature(trigger).parameters)[:3] == ["board_type", "num_players", "iteration"]


@pytest.mark.parametrize(
    ("board", "variant"),
    [("hex8", "hex8_2p"), (BoardType.SQUARE19, "square19_2p"), ("sq8", "square8_2p"), ("ludo", "ludo_2p")],
)
def test_a_board_is_looked_up_under_all_its_names(board: object, variant: str) -> None:
    """A member, a name, a short name, and a user's own board resolve."""
    assert variant_of(board, 2) == variant


def test_an_invalid_board_is_refused() -> None:
    """It is refused before anything is opened or enqueued."""
    for board, players in (("no board", 2), ("hex8", 0), ("", 2)):
        with pytest.raises(InvalidId):
            variant_of(board, players)
