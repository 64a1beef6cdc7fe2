"""Terminal game: a person plays a model or a baseline, with typed moves and a printed board."""

from typing import TextIO

from ringrift.workload.api import TerminalGame
from ringrift_reversi.terminal import DISCS, Choose, Move, Table, by_baseline, by_model, cell_name, cell_of, draw_board

_HELP = "a cell such as {cell} (marked +) or its number, undo, hint, help, quit"


def play(game: TerminalGame, lines: TextIO, out: TextIO) -> bool:
    """Play *game*; True if it was played to its end, False if the person left.  Raises ValueError."""
    if game.model is None:
        choose = by_baseline(game.opponent, game.variant, game.seed)
    else:
        choose = by_model(game.model, game.variant, game.sims)
    table = Table(game.variant)
    out.write(f"{game.variant} against {game.opponent}; you are {DISCS[game.seat]} in seat {game.seat + 1}.\n")
    out.write(_HELP.format(cell=cell_name(table.shape, table.moves()[0])) + "\n")
    return _TerminalSession(table, game.seat, choose, lines, out).play()


class _TerminalSession:
    """One game between a person in *seat* and *choose* in all other seats."""

    def __init__(self, table: Table, seat: int, choose: Choose, lines: TextIO, out: TextIO) -> None:
        self._table, self._seat, self._choose, self._lines, self._out = table, seat, choose, lines, out

    def play(self) -> bool:
        """Play until the game is over, True, or the person leaves, False."""
        while not self._table.is_over:
            if self._table.mover != self._seat:
                self._play_opponent()
                continue
            self._print(f"\n{draw_board(self._table)}\n{self._counts()}")
            if not self._play_person():
                return False
        share = self._table.shares()[self._seat]
        end = "you win" if share == 1.0 else "a tie" if share > 0 else "you lose"
        self._print(f"\n{draw_board(self._table)}\n{self._counts()}\n{end}")
        return True

    def _play_opponent(self) -> None:
        mover = self._table.mover
        move = self._choose(self._table.board, mover)
        self._table.play(move.cell)
        self._print(f"{DISCS[mover]} plays {self._name(move.cell)}{self._expectation(move, mover)}")

    def _play_person(self) -> bool:
        """Let the person move once; False if they leave."""
        moves = self._table.moves()
        while True:
            self._out.write(f"{DISCS[self._seat]} to move > ")
            self._out.flush()
            text = self._lines.readline()
            word = text.strip().lower()
            if not text or word in ("quit", "exit", "q"):
                self._print("" if text else "\nend of input")
                return False
            if word == "undo":
                self._print("" if self._table.undo(self._seat) else "no move to take back")
                return True
            if word == "hint":
                move = self._choose(self._table.board, self._seat)
                self._print(f"it would play {self._name(move.cell)}{self._expectation(move, self._seat)}")
            elif (cell := cell_of(self._table.shape, word)) in moves:
                self._table.play(cell)
                return True
            else:
                error = "" if word in ("", "help", "?") else f"{word[:20]!r} is not a legal move; "
                self._print(error + _HELP.format(cell=self._name(moves[0])))

    def _counts(self) -> str:
        counts = [f"{DISCS[seat]} {count}" for seat, count in enumerate(self._table.counts())]
        counts[self._seat] += " (you)"
        return "   ".join(counts)

    def _name(self, cell: int) -> str:
        return cell_name(self._table.shape, cell)

    def _expectation(self, move: Move, seat: int) -> str:
        return f" and expects {move.expected[seat]:.0%} for {DISCS[seat]}" if move.expected else ""

    def _print(self, text: str) -> None:
        if text:
            self._out.write(text + "\n")
