"""``ringrift play VARIANT``: a person plays the champion, another model or a baseline in the terminal."""

import argparse
import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, TextIO

import msgspec

from ringrift.blobs.open import open_blobs
from ringrift.cli import preset
from ringrift.cli.environment import effective
from ringrift.cli.show import short
from ringrift.cli.store import existing
from ringrift.cluster.roster import KIND as NODE
from ringrift.cluster.roster import NODES_MAX, NodeRecord
from ringrift.kernel import variant as variants
from ringrift.kernel.errors import MissingExtra, RingriftError, SettingsError, TransferError
from ringrift.kernel.ids import check_blob
from ringrift.kernel.settings import Settings
from ringrift.pipeline.records import load

if TYPE_CHECKING:
    from ringrift_reversi import terminal
    from ringrift_reversi.terminal import Choose, Table

HELP = "a cell such as {cell} (marked +) or its number, undo, hint, help, quit"
MODEL_BYTES_MAX = 512 * 1024 * 1024


class NoChampion(RingriftError):
    """There is nobody to play against yet."""

    def __init__(self, variant: str, why: str) -> None:
        self.variant = variant
        super().__init__(
            f"{why}: make a champion with  ringrift run --variants {variant}  or name another opponent, "
            "for example  --model heuristic  or  --model uct:200"
        )


async def champion(settings: Settings, variant: str) -> tuple[str, bytes]:
    """The champion of *variant* and its bytes.  Raises NoChampion, Unreachable."""
    async with existing(settings.store) as store, store.read() as view:
        line = await load(view, variant)
    if line is None or line.champion is None:
        raise NoChampion(variant, f"{variant} has no champion yet")
    if line.workload != preset.REAL:
        raise NoChampion(variant, f"{variant} is played by {line.workload} in this store, which has no board")
    return line.champion, await blob(settings, line.champion)


async def blob(settings: Settings, name: str) -> bytes:
    """The bytes of the blob *name*, from whichever node of the store has it whole.  Raises TransferError."""
    async with existing(settings.store) as store, store.read() as view:
        records = await view.scan(NODE, "", NODES_MAX)
    nodes = [msgspec.json.decode(record.body, type=NodeRecord) for record in records]
    failed: TransferError | None = None
    for node in nodes:
        try:
            return b"".join([chunk async for chunk in open_blobs(node.address).read(name)])
        except TransferError as absent:
            failed = absent
    raise failed or NoChampion("", f"no node has {short(name)}")


def opponent(settings: Settings, options: argparse.Namespace) -> "tuple[str, Choose]":
    """Who is played against, and how it chooses.  Raises NoChampion, SettingsError, UnknownName, TransferError."""
    from ringrift_reversi import terminal

    who: str | None = options.model
    if who is None:
        who, data = asyncio.run(champion(settings, options.variant))
        who = f"champion {short(who)}"
    elif Path(who).is_file():
        if Path(who).stat().st_size > MODEL_BYTES_MAX:
            raise SettingsError("--model", who, f"is larger than {MODEL_BYTES_MAX} bytes")
        data = Path(who).read_bytes()
    elif len(who) == 64:
        data = asyncio.run(blob(settings, check_blob(who)))
    else:
        return who, terminal.by_baseline(who, options.variant, SystemRandom().getrandbits(63))
    try:
        return who, terminal.by_model(data, options.variant, options.sims)
    except ValueError as unusable:
        raise SettingsError("--model", who, str(unusable)) from unusable


class Sitting:
    """One game between a person in *seat* and *choose* in all others, over two streams."""

    def __init__(self, table: "Table", seat: int, choose: "Choose", lines: TextIO, out: TextIO) -> None:
        from ringrift_reversi import terminal

        self._words = terminal
        self._table, self._seat, self._choose, self._lines, self._out = table, seat, choose, lines, out

    def play(self) -> bool:
        """Play until the game is over, True, or the person leaves, False."""
        while not self._table.is_over:
            if self._table.mover != self._seat:
                self._answer()
                continue
            self._say(f"\n{self._words.drawn(self._table)}\n{self._counts()}")
            if not self._ask():
                return False
        shares = self._table.shares()
        end = "you win" if shares[self._seat] == 1.0 else "a tie" if shares[self._seat] > 0 else "you lose"
        self._say(f"\n{self._words.drawn(self._table)}\n{self._counts()}\n{end}")
        return True

    def _answer(self) -> None:
        mover = self._table.mover
        answer = self._choose(self._table.board, mover)
        self._table.play(answer.cell)
        self._say(f"{self._words.DISCS[mover]} plays {self._name(answer.cell)}{self._hopes(answer, mover)}")

    def _ask(self) -> bool:
        """Let the person move once; False if it leaves."""
        moves = self._table.moves()
        while True:
            self._out.write(f"{self._words.DISCS[self._seat]} to move > ")
            self._out.flush()
            text = self._lines.readline()
            word = text.strip().lower()
            if not text or word in ("quit", "exit", "q"):
                self._say("" if text else "\nno more input")
                return False
            if word == "undo":
                self._say("" if self._table.undo(self._seat) else "there is nothing to take back")
                return True
            if word == "hint":
                answer = self._choose(self._table.board, self._seat)
                self._say(f"it would play {self._name(answer.cell)}{self._hopes(answer, self._seat)}")
            elif (cell := self._words.cell_of(self._table.shape, word)) in moves:
                self._table.play(cell)
                return True
            else:
                wrong = "" if word in ("", "help", "?") else f"{word[:20]!r} is no legal move; "
                self._say(wrong + HELP.format(cell=self._name(moves[0])))

    def _counts(self) -> str:
        discs = zip(self._words.DISCS, self._table.counts(), strict=False)
        return "   ".join(f"{disc} {count}" + (" (you)" if seat == self._seat else "")
                          for seat, (disc, count) in enumerate(discs))  # fmt: skip

    def _name(self, cell: int) -> str:
        return self._words.name(self._table.shape, cell)

    def _hopes(self, answer: "terminal.Answer", seat: int) -> str:
        return f" and expects {answer.expects[seat]:.0%} for {self._words.DISCS[seat]}" if answer.expects else ""

    def _say(self, text: str) -> None:
        if text:
            self._out.write(text + "\n")


def main(options: argparse.Namespace, given: Mapping[str, object]) -> int:
    """Play one game; 0.  Raises MissingExtra, NoChampion, SettingsError, UnknownName."""
    found = effective(file=options.settings, given=given)
    players = variants.parse(options.variant).players
    if not 1 <= options.seat <= players:
        raise SettingsError("--seat", options.seat, f"must lie between 1 and {players}")
    if lacks := preset.lacking():
        raise MissingExtra(lacks[0], "train")
    from ringrift_reversi import terminal, topology

    variants.require(options.variant, topology.VARIANTS)
    who, choose = opponent(found.settings, options)
    seat = options.seat - 1
    print(f"{options.variant} against {who}; you are {terminal.DISCS[seat]} in seat {options.seat}.")
    shape = terminal.Table(options.variant)
    print(HELP.format(cell=terminal.name(shape.shape, shape.moves()[0])))
    Sitting(shape, seat, choose, sys.stdin, sys.stdout).play()
    return 0
