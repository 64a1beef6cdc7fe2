"""Tree: the inner loops of the search, one tree per game in preallocated arrays; ``search`` describes the algorithm."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

from ringrift_reversi.engine import apply, legal, outcome
from ringrift_reversi.topology import topology

C_VISIT, C_SCALE = 50.0, 1.0
_PROB_MIN = np.float32(1e-30)  # so that a visited edge always has a weight
OVER = -1

F32 = npt.NDArray[np.float32]
I8 = npt.NDArray[np.int8]
I16 = npt.NDArray[np.int16]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
_U64 = npt.NDArray[np.uint64]
_Marks = npt.NDArray[np.uint8]
_F = TypeVar("_F", bound=Callable[..., object])
_BITS, _NONE = 64, np.uint64(0)


# The functions below allocate nothing, so numba need not count references: counting one for every array of a tree that
# is passed on took half of the time.
_OPTIONS: dict[str, Any] = {"cache": True, "error_model": "numpy", "_nrt": False}


def _outer(function: _F) -> _F:
    """Compiled, to be called from Python."""
    return cast("_F", numba.njit(**_OPTIONS)(function))


def _inner(function: _F) -> _F:
    """Compiled into its caller."""
    return cast("_F", numba.njit(**_OPTIONS, forceinline=True)(function))


class _Lines(NamedTuple):
    """A board's rays, also as sets of cells in 64 bits if it has no more: bit c is cell c, or 63 - c if *turned*."""

    rays: I16  # [cells, directions, length]
    near: _U64  # [cells]: the cells next to it; empty if the board has more than 64 cells
    near_turned: _U64  # [cells]
    ahead: _U64  # [cells, directions / 2]: the rays to higher cells
    behind: _U64  # [cells, directions / 2]: the rays to lower cells, turned


@cache
def lines(board: str) -> _Lines:
    """The rays of *board*."""
    rays = topology(board).rays
    cells, directions, _ = rays.shape
    small = cells <= _BITS
    near, turned = (np.zeros(cells if small else 0, np.uint64) for _ in range(2))
    ahead, behind = (np.zeros((len(near), directions // 2), np.uint64) for _ in range(2))
    for cell in range(len(near)):
        upward, downward = list[list[int]](), list[list[int]]()
        for along in rays[cell].tolist():
            ray = [target for target in along if target >= 0]
            if ray:
                near[cell] |= np.uint64(1 << ray[0])
                turned[cell] |= np.uint64(1 << (_BITS - 1 - ray[0]))
                (upward if ray[0] > cell else downward).append(ray)
        ahead[cell, : len(upward)] = [sum(1 << target for target in ray) for ray in upward]
        behind[cell, : len(downward)] = [sum(1 << (_BITS - 1 - target) for target in ray) for ray in downward]
    return _Lines(rays, near, turned, ahead, behind)


class Tree(NamedTuple):
    """The trees of G games with up to M nodes each; node 0 is the root.  Edges are the legal cells, in order."""

    board: I8  # [G, M, cells]
    mover: I8  # [G, M]; OVER = the game is over here
    width: I16  # [G, M]: how many legal cells
    cell: I16  # [G, M, cells]
    logp: F32  # [G, M, cells]
    visits: I32  # [G, M, cells]
    total: F32  # [G, M, cells]: the sum of values for the mover of the node; undefined without visits
    child: I32  # [G, M, cells]: undefined without visits
    value: F32  # [G, M, P]
    used: I32  # [G]: nodes in use
    sums: F32  # [G, P]: all vectors that were backed up
    path: I32  # [G, M, 2]: node and edge
    depth: I32  # [G]
    scale: F32  # [2]: c_visit, c_scale
    marks: _Marks  # [cells]: working space
    scratch: F32  # [cells]: likewise


def allocate(games: int, nodes: int, cells: int, players: int) -> Tree:
    """Trees of up to *nodes* nodes in each of *games* games."""
    edges = (games, nodes, cells)
    return Tree(
        board=np.zeros(edges, np.int8),
        mover=np.zeros((games, nodes), np.int8),
        width=np.zeros((games, nodes), np.int16),
        cell=np.zeros(edges, np.int16),
        logp=np.zeros(edges, np.float32),
        visits=np.zeros(edges, np.int32),
        total=np.zeros(edges, np.float32),
        child=np.zeros(edges, np.int32),
        value=np.zeros((games, nodes, players), np.float32),
        used=np.zeros(games, np.int32),
        sums=np.zeros((games, players), np.float32),
        path=np.zeros((games, nodes, 2), np.int32),
        depth=np.zeros(games, np.int32),
        scale=np.array([C_VISIT, C_SCALE], np.float32),
        marks=np.zeros(cells, np.uint8),
        scratch=np.zeros(cells, np.float32),
    )


@_inner
def _legal_cells(board: I8, player: int, lines: _Lines, marks: _Marks, out: I16) -> int:
    """Write the legal cells of *player* into *out*, in order; how many there are.

    On small boards without a loop along the rays: among the cells of a ray that hold no disc of others, the first is
    the lowest bit; if it is a disc of *player* and not next to the cell, the move flips something.
    """
    count = 0
    if lines.near.shape[0] == 0:
        legal(board, player, lines.rays, marks)
        for cell in range(marks.shape[0]):
            if marks[cell]:
                out[count] = cell
                count += 1
        return count
    mine = others = mine_turned = others_turned = _NONE
    for cell in range(board.shape[0]):
        own = np.uint64(board[cell] == player + 1)
        other = np.uint64(board[cell] != 0) ^ own
        at, turned = np.uint64(cell), np.uint64(_BITS - 1 - cell)
        mine, mine_turned = mine | own << at, mine_turned | own << turned
        others, others_turned = others | other << at, others_turned | other << turned
    stops, stops_turned = ~others, ~others_turned
    for cell in range(board.shape[0]):
        near = lines.near[cell]
        if board[cell] == 0 and near & others != _NONE:
            far, far_turned = mine & ~near, mine_turned & ~lines.near_turned[cell]
            ends = _NONE
            for along in range(lines.ahead.shape[1]):
                up, down = lines.ahead[cell, along] & stops, lines.behind[cell, along] & stops_turned
                ends |= (up & (_NONE - up) & far) | (down & (_NONE - down) & far_turned)
            if ends != _NONE:
                out[count] = cell
                count += 1
    return count


@_inner
def _open(tree: Tree, g: int, node: int, mover: int, lines: _Lines) -> int:
    """List the legal cells of the first player from *mover* on that has any; OVER if none has."""
    players = tree.sums.shape[1]
    for ahead in range(players):
        seat = int((mover + ahead) % players)
        width = _legal_cells(tree.board[g, node], seat, lines, tree.marks, tree.cell[g, node])
        if width > 0:
            for edge in range(width):
                tree.visits[g, node, edge] = 0
            tree.width[g, node] = width
            tree.mover[g, node] = seat
            return seat
    tree.width[g, node] = 0
    tree.mover[g, node] = OVER
    return OVER


@_outer
def set_root(tree: Tree, g: int, board: I8, mover: int, lines: _Lines) -> int:
    """Make *board* the root of game *g*; the seat that moves there: *mover* if it can."""
    for cell in range(board.shape[0]):
        tree.board[g, 0, cell] = board[cell]
    tree.used[g] = 1
    for seat in range(tree.sums.shape[1]):
        tree.sums[g, seat] = 0
    return _open(tree, g, 0, mover, lines)


@_inner
def _scores(tree: Tree, g: int, node: int, out: F32) -> int:
    """Fill *out* with logp + σ(completed Q) for each edge; the visits below the node."""
    count, mover = tree.width[g, node], tree.mover[g, node]
    visited, most = np.int32(0), np.int32(0)
    weight, weighted = np.float32(0), np.float32(0)
    for edge in range(count):
        n = tree.visits[g, node, edge]
        if n > 0:
            visited += n
            most = max(most, n)
            p = max(np.exp(tree.logp[g, node, edge]), _PROB_MIN)
            weight += p
            weighted += p * (tree.total[g, node, edge] / np.float32(n))
    mix = tree.value[g, node, mover]
    if visited > 0:
        mix = (mix + np.float32(visited) * (weighted / weight)) / np.float32(1 + visited)
    scale = (tree.scale[0] + np.float32(most)) * tree.scale[1]
    for edge in range(count):
        n = tree.visits[g, node, edge]
        q = tree.total[g, node, edge] / np.float32(n) if n > 0 else mix
        out[edge] = tree.logp[g, node, edge] + scale * q
    return int(visited)


@_inner
def _softmax(values: F32, count: int) -> None:
    """Turn the first *count* of *values* into probabilities."""
    most = values[0]
    for place in range(1, count):
        most = max(most, values[place])
    whole = np.float32(0)
    for place in range(count):
        values[place] = np.exp(values[place] - most)
        whole += values[place]
    for place in range(count):
        values[place] /= whole


@_inner
def _root_edge(tree: Tree, g: int, noise: F32, visits: int) -> int:
    """The best edge among those with *visits* visits; with none of them, among all."""
    scratch = tree.scratch
    _scores(tree, g, 0, scratch)
    best, best_score = -1, np.float32(0)
    for edge in range(tree.width[g, 0]):
        if tree.visits[g, 0, edge] == visits:
            score = noise[tree.cell[g, 0, edge]] + scratch[edge]
            if best < 0 or score > best_score:
                best, best_score = edge, score
    assert best >= 0, "the schedule of sequential halving"
    return best


@_inner
def _inner_edge(tree: Tree, g: int, node: int) -> int:
    scratch = tree.scratch
    visited = _scores(tree, g, node, scratch)
    count = tree.width[g, node]
    if visited > 0:  # otherwise all visits and all values are equal, and the likeliest edge is the best
        _softmax(scratch, count)
    best, best_score = 0, np.float32(-np.inf)
    for edge in range(count):
        score = scratch[edge] - np.float32(tree.visits[g, node, edge]) / np.float32(1 + visited)
        if score > best_score:
            best, best_score = edge, score
    return best


@_inner
def _back_up(tree: Tree, g: int, node: int) -> None:
    """Add the vector of *node* along the path that led there."""
    for step in range(tree.depth[g]):
        above, edge = tree.path[g, step, 0], tree.path[g, step, 1]
        gain = tree.value[g, node, tree.mover[g, above]]
        tree.total[g, above, edge] = gain if tree.visits[g, above, edge] == 0 else tree.total[g, above, edge] + gain
        tree.visits[g, above, edge] += 1
    for seat in range(tree.sums.shape[1]):
        tree.sums[g, seat] += tree.value[g, node, seat]


@_inner
def _down(tree: Tree, g: int, noise: F32, visits: int, lines: _Lines) -> int:
    """One simulation down to a node to evaluate; OVER if the game ended there, and its outcome is backed up."""
    node, edge = 0, _root_edge(tree, g, noise, visits)
    depth = 0
    while True:
        tree.path[g, depth, 0], tree.path[g, depth, 1] = node, edge
        depth += 1
        tree.depth[g] = depth
        below = int(tree.child[g, node, edge])
        if tree.visits[g, node, edge] == 0:
            below = int(tree.used[g])
            tree.used[g] += 1
            tree.child[g, node, edge] = below
            for cell in range(tree.board.shape[2]):
                tree.board[g, below, cell] = tree.board[g, node, cell]
            mover = tree.mover[g, node]
            apply(tree.board[g, below], mover, tree.cell[g, node, edge], lines.rays)
            if _open(tree, g, below, mover + 1, lines) != OVER:
                return below
            outcome(tree.board[g, below], tree.sums.shape[1], tree.value[g, below])
        if tree.mover[g, below] == OVER:
            _back_up(tree, g, below)
            return OVER
        node, edge = below, _inner_edge(tree, g, below)


@_outer
def descend(tree: Tree, games: I64, noise: F32, visits: I32, lines: _Lines, leaves: I32, boards: I8, movers: I8) -> int:
    """One simulation in each of *games*; how many leaves the network must evaluate.

    *noise* is [G, cells], *visits* the visits that the root edge must have, by place in *games*.  *leaves* gets the
    game and node of each leaf, *boards* and *movers* its position.
    """
    waiting = 0
    for place in range(games.shape[0]):
        g = games[place]
        node = _down(tree, g, noise[g], visits[place], lines)
        if node != OVER:
            leaves[waiting, 0], leaves[waiting, 1] = g, node
            for cell in range(boards.shape[1]):
                boards[waiting, cell] = tree.board[g, node, cell]
            movers[waiting] = tree.mover[g, node]
            waiting += 1
    return waiting


@_outer
def expand(tree: Tree, leaves: I32, count: int, logits: F32, values: F32) -> None:
    """Store the network's evaluation in the first *count* of *leaves* and back it up; a root only stores it."""
    for place in range(count):
        g, node = leaves[place, 0], leaves[place, 1]
        edges = tree.width[g, node]
        most = logits[place, tree.cell[g, node, 0]]
        for edge in range(1, edges):
            most = max(most, logits[place, tree.cell[g, node, edge]])
        whole = np.float32(0)
        for edge in range(edges):
            whole += np.exp(logits[place, tree.cell[g, node, edge]] - most)
        shift = most + np.log(whole)
        for edge in range(edges):
            tree.logp[g, node, edge] = logits[place, tree.cell[g, node, edge]] - shift
        for seat in range(tree.sums.shape[1]):
            tree.value[g, node, seat] = values[place, seat]
        if node > 0:
            _back_up(tree, g, node)


@_outer
def conclude(tree: Tree, games: I64, noise: F32, edges: I32, policy: F32, value: F32) -> None:
    """By place in *games*: the edge to play, the policy target [·, cells] over edges, and the root's value [·, P]."""
    for place in range(games.shape[0]):
        g = games[place]
        visited = _scores(tree, g, 0, policy[place])
        most = np.int32(0)
        for edge in range(tree.width[g, 0]):
            most = max(most, tree.visits[g, 0, edge])
        best, best_score = -1, np.float32(0)
        for edge in range(tree.width[g, 0]):
            score = noise[g, tree.cell[g, 0, edge]] + policy[place, edge]
            if tree.visits[g, 0, edge] == most and (best < 0 or score > best_score):
                best, best_score = edge, score
        edges[place] = best
        _softmax(policy[place], tree.width[g, 0])
        for seat in range(tree.sums.shape[1]):
            value[place, seat] = (tree.value[g, 0, seat] + tree.sums[g, seat]) / np.float32(1 + visited)


@_inner
def _advance(tree: Tree, g: int, edge: int, lines: _Lines) -> int:
    """Play *edge* at the root; 1 if the new root is evaluated already, else 0, or OVER."""
    below = tree.child[g, 0, edge]
    if tree.visits[g, 0, edge] == 0:
        mover, cell = tree.mover[g, 0], tree.cell[g, 0, edge]
        apply(tree.board[g, 0], mover, cell, lines.rays)
        tree.used[g] = 1
        for seat in range(tree.sums.shape[1]):
            tree.sums[g, seat] = 0
        return OVER if _open(tree, g, 0, mover + 1, lines) == OVER else 0
    count = tree.width[g, below]
    for cell in range(tree.board.shape[2]):
        tree.board[g, 0, cell] = tree.board[g, below, cell]
    tree.mover[g, 0], tree.width[g, 0] = tree.mover[g, below], count
    for seat in range(tree.sums.shape[1]):
        tree.value[g, 0, seat], tree.sums[g, seat] = tree.value[g, below, seat], 0
    for place in range(count):
        tree.cell[g, 0, place] = tree.cell[g, below, place]
        tree.logp[g, 0, place] = tree.logp[g, below, place]
        tree.visits[g, 0, place] = 0
    tree.used[g] = 1
    return OVER if tree.mover[g, 0] == OVER else 1


@_outer
def advance_all(tree: Tree, games: I64, edges: I32, lines: _Lines, evaluated: npt.NDArray[np.bool_]) -> None:
    """`_advance` in each of *games*; *evaluated*, by game, tells whether the new root is."""
    for place in range(games.shape[0]):
        evaluated[games[place]] = _advance(tree, games[place], edges[place], lines) == 1
