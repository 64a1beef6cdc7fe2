"""The documented pipeline actions: each asks for one stage, hears what the gate says, and waits for its end.

No gate is passed by, and what a stage comes to is said by the loop itself under its documented names: nothing is
published here a second time.
"""

from ringrift_compat import stages
from ringrift_compat.buses import StageCompletionResult


async def trigger_data_sync(
    board_type: object, num_players: int = 2, iteration: int | None = None, *, timeout_seconds: float | None = None,
    reason: str = "",
) -> StageCompletionResult:  # fmt: skip
    """Copy the batches that wait for their copies."""
    return await stages.carry_out(stages.SYNC, board_type, num_players, iteration, timeout_seconds, reason)


async def trigger_npz_export(
    board_type: object, num_players: int = 2, iteration: int | None = None, *, timeout_seconds: float | None = None,
    reason: str = "",
) -> StageCompletionResult:  # fmt: skip
    """Turn the games that were kept since the last export into samples; ``output_path`` is where they lie."""
    return await stages.carry_out(stages.EXPORT, board_type, num_players, iteration, timeout_seconds, reason)


async def trigger_training(
    board_type: object, num_players: int = 2, iteration: int | None = None, *, timeout_seconds: float | None = None,
    reason: str = "",
) -> StageCompletionResult:  # fmt: skip
    """Train on the samples of the last export, or make generation 0; ``output_path`` is where the model lies."""
    return await stages.carry_out(stages.TRAIN, board_type, num_players, iteration, timeout_seconds, reason)


async def trigger_evaluation(
    board_type: object, num_players: int = 2, iteration: int | None = None, *, timeout_seconds: float | None = None,
    reason: str = "",
) -> StageCompletionResult:  # fmt: skip
    """Copy, check and match the candidate; decided either way is a success, and ``metadata`` says how."""
    return await stages.carry_out(stages.EVALUATE, board_type, num_players, iteration, timeout_seconds, reason)


async def trigger_promotion(
    board_type: object, num_players: int = 2, iteration: int | None = None, *, timeout_seconds: float | None = None,
    reason: str = "",
) -> StageCompletionResult:  # fmt: skip
    """Bring a champion that has won its match to every node; only evidence promotes, whoever asks."""
    return await stages.carry_out(stages.PROMOTE, board_type, num_players, iteration, timeout_seconds, reason)
