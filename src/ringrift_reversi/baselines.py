"""Baselines: players that never train, as a fixed scale of strength.

``random`` plays any legal move, ``greedy`` one that flips the most discs, ``heuristic`` looks one move ahead with
frozen weights, and ``uct:N`` searches with N random games a move (UCB1 with c = 1; with three or four players each
maximises its own share of first place).  Each decision depends on its own row alone, however callers cut batches.
"""

import re
from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

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
    legal,
    next_mover,
    outcome,
    playout,
)

_LADDER = ("random", "greedy", "heuristic", "uct:50", "uct:200", "uct:800")
"""The rungs on which strength is reported."""
_SIMULATIONS_MAX = 10_000

_UCT = re.compile(r"uct:([1-9][0-9]{0,4})")
_EXPLORATION = 1.0
_Space = tuple[npt.NDArray[np.int32], Shares]
"""Working space of a simulation: the path from the root, and the shares of the players."""


def is_baseline(name: str) -> bool:
    """Whether *name* names a player of this file."""
    return name in ("random", "greedy", "heuristic") or _simulations(name) > 0


def require_baseline(name: str) -> None:
    """Raises ValueError unless *name* names a player of this file."""
    if not is_baseline(name):
        raise topology.unknown("player", name, _LADDER)


def choose(name: str, boards: Boards, to_move: Seats, seeds: Seeds, *, variant: str) -> Cells:
    """The moves of the player *name* in many positions of *variant*; -1 where the game is over.  Raises ValueError.

    The same board, seat and seed always give the same move; with `position_seeds` it depends on the position alone.
    """
    require_baseline(name)
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
        _uct_all(tree, boards, to_move, board.rays, seeds, np.empty(players, np.float32), chosen)
    return chosen


def position_seeds(boards: Boards, to_move: Seats, salt: int = 0) -> Seeds:
    """A seed for each position, from its discs and mover; another *salt* (0 … 2⁶⁴ - 1) gives other ones."""
    seeds = np.full(len(boards), salt, np.uint64)
    _hash_all(np.ascontiguousarray(boards, np.int8), np.ascontiguousarray(to_move, np.int8), seeds)
    return seeds


def _simulations(name: str) -> int:
    """The random games per move of ``uct:N``; 0 if *name* is another player."""
    match = _UCT.fullmatch(name)
    count = int(match[1]) if match else 0
    return count if count <= _SIMULATIONS_MAX else 0


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


class _Tree(NamedTuple):
    """A search tree in arrays; node 0 is the root, and edges are made when their node is first visited."""

    visits: npt.NDArray[np.int32]
    won: npt.NDArray[np.float64]
    """The sum of results for the player who moved into the node."""
    mover: Seats
    first: npt.NDArray[np.int32]
    """The node's first edge."""
    edges: npt.NDArray[np.int32]
    """The number of edges; -1: not made yet."""
    expanded: npt.NDArray[np.int32]
    """The number of edges with a child; those come first."""
    move: Cells
    child: npt.NDArray[np.int32]


def _tree(simulations: int, cells: int) -> _Tree:
    nodes, edges = simulations + 1, (simulations + 1) * cells
    return _Tree(
        visits=np.empty(nodes, np.int32),
        won=np.empty(nodes, np.float64),
        mover=np.empty(nodes, np.int8),
        first=np.empty(nodes, np.int32),
        edges=np.empty(nodes, np.int32),
        expanded=np.empty(nodes, np.int32),
        move=np.empty(edges, np.int16),
        child=np.empty(edges, np.int32),
    )


@numba.njit(cache=True)
def _uct_all(
    tree: _Tree, boards: Boards, to_move: Seats, rays: Rays, seeds: Seeds, shares: Shares, chosen: Cells
) -> None:
    board = np.empty(boards.shape[1], np.int8)
    path = np.empty(boards.shape[1] + 1, np.int32)
    random = np.empty(1, np.uint64)
    for row in range(boards.shape[0]):
        if to_move[row] < 0:
            continue
        random[0] = seeds[row]
        edges_used = int(np.int64(0))
        for node in range(tree.visits.size):
            if node == 0:
                _reset_node(tree, node, int(np.int64(to_move[row])))
            elif node == 1 or tree.edges[0] > 1:  # a single legal move needs no search
                for cell in range(board.size):
                    board[cell] = boards[row, cell]
                edges_used = _simulate(tree, node, board, rays, random, edges_used, (path, shares))
        chosen[row] = _most_visited(tree)


@numba.njit(cache=True)
def _simulate(tree: _Tree, fresh: int, board: Boards, rays: Rays, random: Seeds, edges_used: int, space: _Space) -> int:
    """Go down to an edge without a child, make *fresh* its node, play to the end at random, and back the result up."""
    path, shares = space
    players = shares.size
    node = depth = int(np.int64(0))
    path[0] = 0
    while tree.mover[node] >= 0:
        if tree.edges[node] < 0:
            edges_used = _make_edges(tree, node, board, rays, random, edges_used)
        seat = int(np.int64(tree.mover[node]))
        is_new = tree.expanded[node] < tree.edges[node]
        edge = tree.first[node] + tree.expanded[node] if is_new else _best_edge(tree, node)
        apply(board, seat, int(np.int64(tree.move[edge])), rays)
        if is_new:
            tree.expanded[node] += 1
            tree.child[edge] = fresh
            _reset_node(tree, fresh, next_mover(board, seat, players, rays))
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
def _reset_node(tree: _Tree, node: int, mover: int) -> None:
    tree.visits[node] = 0
    tree.won[node] = 0.0
    tree.mover[node] = mover
    tree.edges[node] = -1
    tree.expanded[node] = 0


@numba.njit(cache=True)
def _make_edges(tree: _Tree, node: int, board: Boards, rays: Rays, random: Seeds, edges_used: int) -> int:
    """Make the node's edges, in random order; the number of edges of the tree then."""
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
def _best_edge(tree: _Tree, node: int) -> int:
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
def _most_visited(tree: _Tree) -> int:
    """The root's move with the most visits; ties go to the one that won the most."""
    best = tree.first[0]
    for edge in range(tree.first[0], tree.first[0] + tree.expanded[0]):
        child, leader = tree.child[edge], tree.child[best]
        ahead = tree.visits[child] - tree.visits[leader]
        if ahead > 0 or (ahead == 0 and tree.won[child] > tree.won[leader]):
            best = edge
    return int(np.int64(tree.move[best]))
