"""Reference: the rules in plain Python, written to be read; tests compare the compiled engine with it.

Players take turns.  A disc must be played on an empty cell from which, in some direction, discs that are not the
player's lie in an unbroken line up to one that is; all those in between become the player's, in every such direction.
A player who cannot move is skipped.  When no player can move, the game is over, and first place goes to the player
with the most discs; players with equally many share it.

A board is a list of discs, one for each cell: 0 is empty, seat + 1 is a disc of that seat.
"""

from collections.abc import Sequence

Board = list[int]
Rays = Sequence[Sequence[Sequence[int]]]
"""For each cell and direction the cells that follow, nearest first; -1 stands behind the end."""


def legal(board: Board, player: int, rays: Rays) -> list[int]:
    """The cells where *player* may play."""
    return [cell for cell in range(len(board)) if flips(board, player, cell, rays)]


def apply(board: Board, player: int, cell: int, rays: Rays) -> int:
    """Play *cell* for *player* on *board* itself; how many discs were flipped.  0: illegal, and nothing has changed."""
    flipped = flips(board, player, cell, rays)
    if flipped:
        for changed in [cell, *flipped]:
            board[changed] = player + 1
    return len(flipped)


def next_mover(board: Board, player: int, players: int, rays: Rays) -> int:
    """The seat that moves after *player*: the next that can, *player* again if no other can; -1 if none can."""
    for ahead in range(1, players + 1):
        seat = (player + ahead) % players
        if legal(board, seat, rays):
            return seat
    return -1


def outcome(board: Board, players: int) -> list[float]:
    """Each seat's share of first place by discs: 1/k for each of k that tie for it, else 0."""
    discs = [board.count(seat + 1) for seat in range(players)]
    winners = discs.count(max(discs))
    return [1 / winners if count == max(discs) else 0.0 for count in discs]


def flips(board: Board, player: int, cell: int, rays: Rays) -> list[int]:
    """The cells whose discs *player* would flip by playing *cell*."""
    if board[cell] != 0:
        return []
    return [flipped for ray in rays[cell] for flipped in _between(board, player + 1, ray)]


def _between(board: Board, mine: int, ray: Sequence[int]) -> list[int]:
    """The cells of *ray* before the first disc of *mine*, if all of them hold discs of others."""
    crossed: list[int] = []
    for cell in ray:
        if cell == -1 or board[cell] == 0:
            return []
        if board[cell] == mine:
            return crossed
        crossed.append(cell)
    return []
