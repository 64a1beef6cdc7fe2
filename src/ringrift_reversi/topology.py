"""Topology: the boards as cells and rays, their symmetries, and where the discs stand at the start.

Cells are numbered row by row, from the top left.  A square board has eight directions, a hexagon six.  The rows of a
hexagon lean: a cell's place on the grid is its axial coordinate, so every direction is one shift on the grid too.

Starts are pictures, laid on the middle of the board.  `square8` with two players is Othello, and black (1) moves first.
In each, every player has a legal move, and all seats are equal but for the order of moves wherever the board allows it:
for any two players, some symmetry of the board maps the discs of one to those of the other.  Three players cannot be
equal on a square, which has no symmetry of order three: there, each player's discs look the same from all four sides.

A ring around an empty centre would be a bad start.  A move needs two cells in line behind it; so if no cell that lies
an even number of rows and of columns from the centre has a disc, none ever will, and up to a third of the board, with
the corners of a hexagon, is dead.  With these starts every cell can come into play.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

_Int8 = npt.NDArray[np.int8]
_Int16 = npt.NDArray[np.int16]
_Place = tuple[int, int]
_Turn = Callable[[int, int], _Place]

# Board → is it a hexagon, and its radius (hexagon) or side (square).
_BOARDS = {"square8": (False, 8), "square19": (False, 19), "hex8": (True, 4), "hexagonal": (True, 12)}
_PLAYERS = (2, 3, 4)

VARIANTS: dict[str, tuple[str, int]] = {
    f"{board}_{players}p": (board, players) for board in _BOARDS for players in _PLAYERS
}


def _starts(pictures: str) -> dict[int, list[str]]:
    """Pictures for two, three and four players, side by side."""
    rows = [line.split() for line in pictures.strip().splitlines()]
    return {players: [row[at] for row in rows if row[at] != "|"] for at, players in enumerate(_PLAYERS)}


_EVEN_STARTS = _starts("""
    21   .32.   12
    12   2113   43
    |    3112   |
    |    .23.   |
""")
_ODD_STARTS = _starts("""
    ..2..   ..2..   ..1..
    .211.   .313.   .112.
    12.21   21.12   44.22
    .112.   .313.   .433.
    ..2..   ..2..   ..3..
""")
# A hexagon's rows lean: the cell above another one in these pictures is its neighbour to the upper left.
_HEX_STARTS = _starts("""
    ..2.1   ..3.1   ....1..
    ..12.   ..12.   ...1...
    12.12   23.32   ...2..4
    .12..   .21..   .21.34.
    2.1..   1.3..   2..4...
    |       |       ...3...
    |       |       ..3....
""")


@dataclass(frozen=True, eq=False)
class Topology:
    """A board: which cells lie behind each other in every direction, and how it looks on a grid.  Shared: read only."""

    name: str
    cells: int
    rays: _Int16
    """[cells, directions, longest ray]: the cells that follow in each direction, nearest first; -1 behind the end."""
    rows: int
    cols: int
    place: _Int16
    """[cells]: row · cols + column on the grid that the network sees."""
    symmetries: _Int16
    """[8 or 12, cells]: where each cell goes; the first is the identity."""


def unknown(kind: str, name: str, choices: Iterable[str]) -> ValueError:
    """The error for a *name* that is not among *choices*."""
    return ValueError(f"unknown {kind} {name!r:.80}; known: {', '.join(sorted(choices))}")


@cache
def topology(board: str) -> Topology:
    """The board called *board*.  Raises ValueError."""
    if board not in _BOARDS:
        raise unknown("board", board, _BOARDS)
    is_hexagon, size = _BOARDS[board]
    places, side = _hexagon(size) if is_hexagon else _square(size)
    directions = _HEX_DIRECTIONS if is_hexagon else _SQUARE_DIRECTIONS
    turns = _hex_turns(size) if is_hexagon else _square_turns(size)
    cell = {place: number for number, place in enumerate(places)}
    return Topology(
        name=board,
        cells=len(places),
        rays=_rays(places, directions),
        rows=side,
        cols=side,
        place=np.array([row * side + col for row, col in places], np.int16),
        symmetries=np.array([[cell[turn(*place)] for place in places] for turn in turns], np.int16),
    )


def variant(name: str) -> tuple[Topology, int]:
    """The board and the number of players of the variant called *name*.  Raises ValueError."""
    if name not in VARIANTS:
        raise unknown("variant", name, VARIANTS)
    board, players = VARIANTS[name]
    return topology(board), players


def start(board: str, players: int) -> _Int8:
    """The discs at the start: 0 is empty, 1 … *players* are theirs.  The caller's own copy.  Raises ValueError."""
    shape = topology(board)
    if players not in _PLAYERS:
        raise unknown("variant", f"{board}_{players}p", VARIANTS)
    is_hexagon, size = _BOARDS[board]
    starts = _HEX_STARTS if is_hexagon else _ODD_STARTS if size % 2 else _EVEN_STARTS
    picture = starts[players]
    corner = (shape.rows - len(picture)) // 2
    grid = np.zeros((shape.rows, shape.cols), np.int8)
    for row, line in enumerate(picture, corner):
        for col, disc in enumerate(line, corner):
            grid[row, col] = 0 if disc == "." else int(disc)
    return grid.reshape(-1)[shape.place]


_SQUARE_DIRECTIONS = ((-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1))
_HEX_DIRECTIONS = ((-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0))


def _square(side: int) -> tuple[list[_Place], int]:
    return [(row, col) for row in range(side) for col in range(side)], side


def _hexagon(radius: int) -> tuple[list[_Place], int]:
    """Rows and columns are axial coordinates, moved so that they begin at 0; row + column stays near the middle."""
    side = 2 * radius + 1
    inside = range(radius, 3 * radius + 1)
    return [(row, col) for row in range(side) for col in range(side) if row + col in inside], side


def _rays(places: Sequence[_Place], directions: Sequence[_Place]) -> _Int16:
    cell = {place: number for number, place in enumerate(places)}
    rays = {
        (number, along): _ray(place, step, cell)
        for number, place in enumerate(places)
        for along, step in enumerate(directions)
    }
    table = np.full((len(places), len(directions), max(map(len, rays.values()))), -1, np.int16)
    for (number, along), ray in rays.items():
        table[number, along, : len(ray)] = ray
    return table


def _ray(place: _Place, step: _Place, cell: dict[_Place, int]) -> list[int]:
    ray: list[int] = []
    row, col = place[0] + step[0], place[1] + step[1]
    while (row, col) in cell:
        ray.append(cell[row, col])
        row, col = row + step[0], col + step[1]
    return ray


def _square_turns(side: int) -> list[_Turn]:
    """The identity, three quarter turns, and the same after a reflection."""
    last = side - 1

    def turned(quarters: int, mirrored: bool) -> _Turn:
        def turn(row: int, col: int) -> _Place:
            if mirrored:
                col = last - col
            for _ in range(quarters):
                row, col = col, last - row
            return row, col

        return turn

    return [turned(quarters, mirrored) for mirrored in (False, True) for quarters in range(4)]


def _hex_turns(radius: int) -> list[_Turn]:
    """The identity, five sixth turns, and the same after a reflection."""

    def turned(sixths: int, mirrored: bool) -> _Turn:
        def turn(row: int, col: int) -> _Place:
            r, q = row - radius, col - radius
            if mirrored:
                r, q = q, r
            for _ in range(sixths):
                r, q = -q, r + q
            return r + radius, q + radius

        return turn

    return [turned(sixths, mirrored) for mirrored in (False, True) for sixths in range(6)]
