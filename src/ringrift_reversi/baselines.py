"""Baselines: players that never train, so that strength can be told on a scale that stays where it is.

``random`` plays any legal move, ``greedy`` one that flips the most discs, ``heuristic`` looks one move ahead with
frozen weights, and ``uct:N`` searches with N random games a move (UCB1 with c = 1; with three or four players each
maximises its own share of first place).  Each decision hangs on its own row alone: callers may cut batches at will.
"""

import re
from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from ringrift.kernel.errors import UnknownName
from ringrift_reversi import heuristic, topology
from ringrift_reversi.engine import (
    Boards,
    Cells,
    Rays,
    Seats,
    Seeds,
    Shares,
    apply,
    bits,
    crossed,
    draw,
    following,
    legal,
    outcome,
    playout,
)

LADDER = ("random", "greedy", "heuristic", "uct:50", "uct:200", "uct:800")
"""The rungs that strength is reported on."""
SIMULATIONS_MAX = 10_000

_UCT = re.compile(r"uct:([1-9][0-9]{0,4})")
_EXPLORATION = 1.0


def is_baseline(name: str) -> bool:
    """Whether *name* names a player of this file."""
    return name in ("random", "greedy", "heuristic") or _simulations(name) > 0


def choose(name: str, boards: Boards, to_move: Seats, seeds: Seeds, *, variant: str) -> Cells:
    """The moves of the player *name* in many positions of *variant*; -1 where the game is over.  Raises UnknownName.

    The same board, seat and seed always give the same move; `position_seeds` makes it hang on the position alone.
    """
    if not is_baseline(name):
        raise UnknownName("player", name, LADDER)
    board, players = topology.variant(variant)
    boards = np.ascontiguousarray(boards, np.int8)
    to_move, seeds = np.ascontiguousarray(to_move, np.int8), np.ascontiguousarray(seeds, np.uint64)
    assert boards.shape == (len(to_move), board.cells)
    assert seeds.shape == to_move.shape
    if name == "heuristic":
        return heuristic.best(variant, boards, to_move, seeds)
    chosen = np.full(len(boards), -1, np.int16)
    if name == "random":
        _random_all(boards, to_move, board.rays, seeds, chosen)
    elif name == "greedy":
        _greedy_all(boards, to_move, board.rays, seeds, chosen)
    else:
        tree = _tree(_simulations(name), board.cells)
        _uct_all(tree, boards, to_move, players, board.rays, seeds, chosen)
    return chosen


def position_seeds(boards: Boards, to_move: Seats, salt: int = 0) -> Seeds:
    """A seed for each position, from its discs and who moves; another *salt* (0 … 2⁶⁴ - 1) gives other ones."""
    seeds = np.full(len(boards), salt, np.uint64)
    _hash_all(np.ascontiguousarray(boards, np.int8), np.ascontiguousarray(to_move, np.int8), seeds)
    return seeds


def _simulations(name: str) -> int:
    """How many random games a move ``uct:N`` plays; 0 if *name* is no such player."""
    found = _UCT.fullmatch(name)
    count = int(found[1]) if found else 0
    return count if count <= SIMULATIONS_MAX else 0


@numba.njit(cache=True)
def _hash_all(boards: Boards, to_move: Seats, seeds: Seeds) -> None:
    for row in range(boards.shape[0]):
        random = seeds[row : row + 1]
        random[0] ^= np.uint64(to_move[row] + 1)
        for cell in range(boards.shape[1]):
            random[0] = bits(random) ^ np.uint64(boards[row, cell])


@numba.njit(cache=True)
def _random_all(boards: Boards, to_move: Seats, rays: Rays, seeds: Seeds, chosen: Cells) -> None:
    marks = np.empty(boards.shape[1], np.uint8)
    random = np.empty(1, np.uint64)
    for row in range(boards.shape[0]):
        if to_move[row] >= 0:
            random[0] = seeds[row]
            ahead = draw(random, legal(boards[row], int(np.int64(to_move[row])), rays, marks))
            for cell in range(boards.shape[1]):
                if marks[cell] and ahead == 0:
                    chosen[row] = cell
                ahead -= marks[cell]


@numba.njit(cache=True)
def _greedy_all(boards: Boards, to_move: Seats, rays: Rays, seeds: Seeds, chosen: Cells) -> None:
    random = np.empty(1, np.uint64)
    for row in range(boards.shape[0]):
        if to_move[row] < 0:
            continue
        random[0] = seeds[row]
        most, alike = 1, 0
        for cell in range(boards.shape[1]):
            flips = 0
            if boards[row, cell] == 0:
                for along in range(rays.shape[1]):
                    flips += crossed(boards[row], int(np.int64(to_move[row])) + 1, cell, along, rays)
            if flips > most:
                most, alike = flips, 0
            if flips == most:
                alike += 1
                if draw(random, alike) == 0:
                    chosen[row] = cell


class Tree(NamedTuple):
    """A search tree in arrays; node 0 is the root, and an edge is made when its node is first passed through."""

    visits: npt.NDArray[np.int32]
    won: npt.NDArray[np.float64]
    """What whoever moved into the node has won through it."""
    mover: Seats
    first: npt.NDArray[np.int32]
    """The node's first edge."""
    edges: npt.NDArray[np.int32]
    """How many edges the node has; -1: not made yet."""
    tried: npt.NDArray[np.int32]
    """How many of its edges have a child; those come first."""
    move: Cells
    child: npt.NDArray[np.int32]


def _tree(simulations: int, cells: int) -> Tree:
    nodes, edges = simulations + 1, (simulations + 1) * cells
    return Tree(
        visits=np.empty(nodes, np.int32), won=np.empty(nodes, np.float64), mover=np.empty(nodes, np.int8),
        first=np.empty(nodes, np.int32), edges=np.empty(nodes, np.int32), tried=np.empty(nodes, np.int32),
        move=np.empty(edges, np.int16), child=np.empty(edges, np.int32),
    )  # fmt: skip


@numba.njit(cache=True)
def _uct_all(tree: Tree, boards: Boards, to_move: Seats, players: int, rays: Rays, seeds: Seeds, chosen: Cells) -> None:
    board = np.empty(boards.shape[1], np.int8)
    path = np.empty(boards.shape[1] + 1, np.int32)
    shares = np.empty(players, np.float32)
    random = np.empty(1, np.uint64)
    for row in range(boards.shape[0]):
        if to_move[row] < 0:
            continue
        random[0] = seeds[row]
        edges_used = int(np.int64(0))
        for node in range(tree.visits.size):
            if node == 0:
                _plant(tree, node, int(np.int64(to_move[row])))
            elif node == 1 or tree.edges[0] > 1:  # where there is no choice, there is no need to search
                for cell in range(board.size):
                    board[cell] = boards[row, cell]
                edges_used = _simulate(tree, node, board, players, rays, random, edges_used, path, shares)
        chosen[row] = _most_visited(tree)


@numba.njit(cache=True)
def _simulate(
    tree: Tree, fresh: int, board: Boards, players: int, rays: Rays, random: Seeds, edges_used: int,
    path: npt.NDArray[np.int32], shares: Shares,
) -> int:  # fmt: skip
    """Go down to an edge without a child, plant *fresh* there, play to the end at random, and tell the path."""
    node = depth = int(np.int64(0))
    path[0] = 0
    while tree.mover[node] >= 0:
        if tree.edges[node] < 0:
            edges_used = _branch(tree, node, board, rays, random, edges_used)
        seat = int(np.int64(tree.mover[node]))
        is_new = tree.tried[node] < tree.edges[node]
        edge = tree.first[node] + tree.tried[node] if is_new else _promising(tree, node)
        apply(board, seat, int(np.int64(tree.move[edge])), rays)
        if is_new:
            tree.tried[node] += 1
            tree.child[edge] = fresh
            _plant(tree, fresh, following(board, seat, players, rays))
        node = tree.child[edge]
        depth += 1
        path[depth] = node
        if is_new:
            break
    if tree.mover[node] >= 0:
        playout(board, int(np.int64(tree.mover[node])), players, rays, random, board.size)
    outcome(board, players, shares)
    tree.visits[0] += 1
    for step in range(1, depth + 1):
        tree.visits[path[step]] += 1
        tree.won[path[step]] += shares[tree.mover[path[step - 1]]]
    return edges_used


@numba.njit(cache=True)
def _plant(tree: Tree, node: int, mover: int) -> None:
    tree.visits[node] = 0
    tree.won[node] = 0.0
    tree.mover[node] = mover
    tree.edges[node] = -1
    tree.tried[node] = 0


@numba.njit(cache=True)
def _branch(tree: Tree, node: int, board: Boards, rays: Rays, random: Seeds, edges_used: int) -> int:
    """Make the node's edges, in random order; how many edges there are then in the tree."""
    marks = np.empty(board.size, np.uint8)
    count = legal(board, int(np.int64(tree.mover[node])), rays, marks)
    tree.first[node], tree.edges[node] = edges_used, count
    for cell in range(board.size):
        if marks[cell]:
            tree.move[edges_used] = cell
            edges_used += 1
    for last in range(count - 1, 0, -1):
        a, b = tree.first[node] + last, tree.first[node] + draw(random, last + 1)
        tree.move[a], tree.move[b] = tree.move[b], tree.move[a]
    return edges_used


@numba.njit(cache=True)
def _promising(tree: Tree, node: int) -> int:
    """The edge with the highest upper confidence bound (UCB1)."""
    best, most = -1, -np.inf
    widening = _EXPLORATION * np.sqrt(np.log(tree.visits[node]))
    for edge in range(tree.first[node], tree.first[node] + tree.edges[node]):
        child = tree.child[edge]
        bound = tree.won[child] / tree.visits[child] + widening / np.sqrt(tree.visits[child])
        if bound > most:
            best, most = edge, bound
    return best


@numba.njit(cache=True)
def _most_visited(tree: Tree) -> int:
    """The root's move with the most visits; among several, the one that won the most."""
    best = tree.first[0]
    for edge in range(tree.first[0], tree.first[0] + tree.tried[0]):
        child, leader = tree.child[edge], tree.child[best]
        ahead = tree.visits[child] - tree.visits[leader]
        if ahead > 0 or (ahead == 0 and tree.won[child] > tree.won[leader]):
            best = edge
    return int(np.int64(tree.move[best]))
