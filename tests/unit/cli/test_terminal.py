"""The terminal game: one loop that draws, reads and answers, for every game that can be drawn and typed."""

import io
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from ringrift.cli.terminal import TerminalGame


@dataclass(frozen=True)
class Heap:
    """Take one or two stones; whoever takes the last one wins.  A seat that takes two of five moves again."""

    stones: int = 5
    seat: int = 0

    @property
    def is_over(self) -> bool:
        return self.stones == 0

    def legal(self) -> Sequence[int]:
        return [count for count in (1, 2) if count <= self.stones]

    def play(self, action: int) -> "Heap":
        return Heap(self.stones - action, self.seat if (self.stones, action) == (5, 2) else 1 - self.seat)

    def scores(self) -> Sequence[float]:
        if not self.is_over:
            return (0.0, 0.0)
        return (1.0, 0.0) if self.seat == 1 else (0.0, 1.0)

    def render(self) -> str:
        return "o" * self.stones

    def text(self, action: int) -> str:
        return f"take{action}"

    def parse(self, text: str) -> int:
        if text not in ("take1", "take2", "take9"):
            raise ValueError(f"{text} is not a move here")
        return int(text[-1])


def play(typed: str, seat: int = 0, stones: int = 5) -> tuple[bool, str]:
    """Whether the game came to its end, and what was printed."""
    out = io.StringIO()
    plies: list[int] = []

    def take_one(board: Heap, ply: int) -> int:
        plies.append(ply)
        return 1

    ended = TerminalGame(Heap(stones), seat, take_one, io.StringIO(typed), out).play()
    assert plies == sorted(plies) or "undo" in typed
    return ended, out.getvalue()


def test_a_game_is_drawn_typed_and_ends() -> None:
    """The board is drawn before each move of the person, moves of the other are named, and the end says who won."""
    ended, output = play("take1\ntake1\ntake1\n")

    assert ended
    assert output.splitlines()[0] == "type a move such as take1, or: moves, hint, undo, help, quit"
    assert output.count("seat 2 plays take1") == 2
    assert "\nooooo\n" in output
    assert output.endswith("seat 1 (you) 1   seat 2 0\nyou win\n")


def test_the_other_player_begins_and_a_loss_is_called_so() -> None:
    """In the second seat the person waits for the first."""
    ended, output = play("take1\ntake1\n", seat=1)

    assert ended
    assert output.splitlines()[1] == "seat 1 plays take1"
    assert output.endswith("you lose\n")


def test_the_same_seat_may_move_again() -> None:
    """Whoever is to move is the board's affair."""
    _, output = play("take2\nquit\n")

    assert "plays" not in output
    assert output.count("seat 1 (you) >") == 2


@pytest.mark.parametrize(("word", "message"), [("nonsense", "is not a move here"), ("take9", "not a legal move")])
def test_what_is_no_move_changes_nothing(word: str, message: str) -> None:
    """The reason is printed, and the same position waits, also if the game reads a move that is not legal."""
    ended, output = play(f"{word}\nquit\n")

    assert not ended
    assert message in output
    assert "(help lists what can be typed)" in output
    assert output.count("\nooooo\n") == 1


def test_the_person_is_helped() -> None:
    """Moves are listed, a hint is the other player's own choice, and help names the words."""
    _, output = play("moves\nhint\nhelp\n?\n\nquit\n")

    assert "> take1, take2\n" in output
    assert "> it would play take1\n" in output
    assert output.count("type a move such as take1") == 4


def test_a_move_is_taken_back() -> None:
    """With the answer to it; before the first move there is none."""
    _, output = play("undo\ntake1\nundo\nquit\n")

    assert "no move to take back" in output
    assert output.count("\nooooo\n") == 3
    assert output.count("\nooo\n") == 1


@pytest.mark.parametrize(("typed", "last"), [("quit\n", ""), ("q\n", ""), ("EXIT\n", ""), ("", "end of input\n")])
def test_the_person_leaves(typed: str, last: str) -> None:
    """By a word, or because there is no more input."""
    ended, output = play(typed)

    assert not ended
    assert output.endswith(f"seat 1 (you) > {chr(10) if last else ''}{last}")


def test_equal_points_are_a_tie() -> None:
    """Whoever shares the first place has not won it."""

    class Even(Heap):
        def play(self, action: int) -> "Heap":
            return Even(0)

        def scores(self) -> Sequence[float]:
            return (2.0, 2.0)

    out = io.StringIO()
    TerminalGame(Even(1), 0, lambda board, ply: 1, io.StringIO("take1\n"), out).play()

    assert out.getvalue().endswith("seat 1 (you) 2   seat 2 2\na tie\n")
