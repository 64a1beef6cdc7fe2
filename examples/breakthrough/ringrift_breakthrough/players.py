"""Players that never train."""

from random import Random

from ringrift_breakthrough.rules import Board


def play_greedy(board: Board, random: Random) -> int:
    """Win at once if possible, else prevent a loss at once, else take a piece, else advance at random."""

    def rank(action: int) -> tuple[bool, bool, bool, float]:
        child = board.play(action)
        is_safe = not any(child.play(reply).is_over for reply in child.legal())
        return child.is_over, is_safe, child.own.bit_count() < board.other.bit_count(), random.random()

    return max(board.legal(), key=rank)
