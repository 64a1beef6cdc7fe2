"""Terminal: one game between a person and another player, for every game that can be drawn and typed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

from ringrift.workload.api import Board

_HELP = "type a move such as {move}, or: moves, hint, undo, help, quit"
_MOVES_LISTED = 60


@dataclass
class TerminalGame:
    """A person in *seat* against *choose*, which has all other seats and gives hints; moves are read from *lines*."""

    board: Board
    seat: int
    choose: Callable[[Board, int], int]  #: The position and the number of plies before it → an action.
    lines: TextIO
    out: TextIO

    def __post_init__(self) -> None:
        self._past: list[Board] = []

    def play(self) -> bool:
        """True if the game was played to its end, False if the person left."""
        self._print(_HELP.format(move=self.board.text(self.board.legal()[0])))
        while not self.board.is_over:
            if self.board.seat == self.seat:
                self._print(f"\n{self.board.render()}")
                if not self._play_person():
                    return False
            else:
                action = self._choose()
                self._print(f"{self._name(self.board.seat)} plays {self.board.text(action)}")
                self._advance(action)
        points = self.board.scores()
        best = [seat for seat, score in enumerate(points) if score == max(points)]
        end = "you lose" if self.seat not in best else "you win" if len(best) == 1 else "a tie"
        listed = "   ".join(f"{self._name(seat)} {score:g}" for seat, score in enumerate(points))
        self._print(f"\n{self.board.render()}\n{listed}\n{end}")
        return True

    def _play_person(self) -> bool:
        """Let the person move once or take a move back; False if they leave."""
        while True:
            self.out.write(f"{self._name(self.seat)} > ")
            self.out.flush()
            text = self.lines.readline()
            word = text.strip().lower()
            if not text or word in ("quit", "exit", "q"):
                self._print("" if text else "\nend of input")
                return False
            if word == "undo":
                self._print("" if self._undo() else "no move to take back")
                return True
            if word == "hint":
                self._print(f"it would play {self.board.text(self._choose())}")
            elif word in ("", "help", "?", "moves"):
                self._print(self._moves() if word == "moves" else _HELP.format(move=self._moves(1)))
            elif self._try(text.strip()):
                return True

    def _try(self, text: str) -> bool:
        """Play the move that *text* names; if it names no legal one, say so and change nothing."""
        try:
            action = self.board.parse(text)
            if action not in self.board.legal():
                raise ValueError(f"{text[:20]!r} is not a legal move")
        except ValueError as error:
            self._print(f"{error} (help lists what can be typed)")
            return False
        self._advance(action)
        return True

    def _choose(self) -> int:
        return self.choose(self.board, len(self._past))

    def _advance(self, action: int) -> None:
        self._past.append(self.board)
        self.board = self.board.play(action)

    def _undo(self) -> bool:
        """Go back to where the person moved last; False if they never did."""
        places = [place for place, board in enumerate(self._past) if board.seat == self.seat]
        if places:
            self.board = self._past[places[-1]]
            del self._past[places[-1] :]
        return bool(places)

    def _moves(self, limit: int = _MOVES_LISTED) -> str:
        legal = self.board.legal()
        more = " …" if limit > 1 and len(legal) > limit else ""
        return ", ".join(self.board.text(action) for action in legal[:limit]) + more

    def _name(self, seat: int) -> str:
        return f"seat {seat + 1} (you)" if seat == self.seat else f"seat {seat + 1}"

    def _print(self, text: str) -> None:
        if text:
            self.out.write(text + "\n")
