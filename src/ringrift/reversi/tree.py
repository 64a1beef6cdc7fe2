"""Tree: the inner loops of the search, one tree per game in arrays that are made once; the rules are in ``search``."""

from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from ringrift.reversi.engine import apply, legal, outcome

C_VISIT, C_SCALE = 50.0, 1.0
PROB_MIN = np.float32(1e-30)  # so that a visited edge never has no weight at all
OVER = -1

F32 = npt.NDArray[np.float32]
I8 = npt.NDArray[np.int8]
I16 = npt.NDArray[np.int16]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


class Tree(NamedTuple):
    """The trees of G games with up to M nodes each; node 0 is the root.  Edges are the legal cells, in order."""

    board: I8  # [G, M, cells]
    mover: I8  # [G, M]; OVER = the game is over here
    width: I16  # [G, M]: how many legal cells
    cell: I16  # [G, M, cells]
    logp: F32  # [G, M, cells]
    prob: F32  # [G, M, cells]
    visits: I32  # [G, M, cells]
    total: F32  # [G, M, cells]: what the mover of the node got, summed over visits
    child: I32  # [G, M, cells]; -1 = none yet
    value: F32  # [G, M, P]
    used: I32  # [G]: nodes in use
    sums: F32  # [G, P]: all vectors that were backed up
    path: I32  # [G, M, 2]: node and edge
    depth: I32  # [G]
    scale: F32  # [2]: c_visit, c_scale


def plant(games: int, nodes: int, cells: int, players: int) -> Tree:
    """Trees with room for *nodes* nodes in each of *games* games."""
    edges = (games, nodes, cells)
    return Tree(
        board=np.zeros(edges, np.int8), mover=np.zeros((games, nodes), np.int8),
        width=np.zeros((games, nodes), np.int16), cell=np.zeros(edges, np.int16), logp=np.zeros(edges, np.float32),
        prob=np.zeros(edges, np.float32),
        visits=np.zeros(edges, np.int32), total=np.zeros(edges, np.float32), child=np.zeros(edges, np.int32),
        value=np.zeros((games, nodes, players), np.float32), used=np.zeros(games, np.int32),
        sums=np.zeros((games, players), np.float32), path=np.zeros((games, nodes, 2), np.int32),
        depth=np.zeros(games, np.int32), scale=np.array([C_VISIT, C_SCALE], np.float32),
    )  # fmt: skip


@numba.njit(cache=True, error_model="numpy")
def _open(tree: Tree, g: int, node: int, mover: int, rays: I16, mask: npt.NDArray[np.uint8]) -> int:
    """List the legal cells of the first player from *mover* on who has one; OVER if nobody has."""
    players = tree.sums.shape[1]
    for ahead in range(players):
        who = int((mover + ahead) % players)
        if legal(tree.board[g, node], who, rays, mask) > 0:
            edge = 0
            for cell in range(mask.shape[0]):
                if mask[cell]:
                    tree.cell[g, node, edge] = cell
                    tree.visits[g, node, edge] = 0
                    tree.total[g, node, edge] = 0
                    tree.child[g, node, edge] = -1
                    edge += 1
            tree.width[g, node] = edge
            tree.mover[g, node] = who
            return who
    tree.width[g, node] = 0
    tree.mover[g, node] = OVER
    return OVER


@numba.njit(cache=True, error_model="numpy")
def root(tree: Tree, g: int, board: I8, mover: int, rays: I16, mask: npt.NDArray[np.uint8]) -> int:
    """Make *board* the root of game *g*; who moves there, which is *mover* if it can."""
    tree.board[g, 0] = board
    tree.used[g] = 1
    tree.sums[g] = 0
    return _open(tree, g, 0, mover, rays, mask)


@numba.njit(cache=True, error_model="numpy")
def scores(tree: Tree, g: int, node: int, out: F32) -> int:
    """Fill *out* with logp + σ(completed Q) for each edge; how often the node was visited below."""
    count, mover = tree.width[g, node], tree.mover[g, node]
    visited, most = np.int32(0), np.int32(0)
    weight, weighted = np.float32(0), np.float32(0)
    for edge in range(count):
        n = tree.visits[g, node, edge]
        if n > 0:
            visited += n
            most = max(most, n)
            p = tree.prob[g, node, edge]
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


@numba.njit(cache=True, error_model="numpy")
def softmax(values: F32, count: int) -> None:
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


@numba.njit(cache=True, error_model="numpy")
def _root_edge(tree: Tree, g: int, noise: F32, visits: int, scratch: F32) -> int:
    """The best edge among those with *visits* visits; with none of them, among all."""
    scores(tree, g, 0, scratch)
    best, found = -1, np.float32(0)
    for edge in range(tree.width[g, 0]):
        if tree.visits[g, 0, edge] == visits:
            score = noise[tree.cell[g, 0, edge]] + scratch[edge]
            if best < 0 or score > found:
                best, found = edge, score
    assert best >= 0, "the schedule of sequential halving"
    return best


@numba.njit(cache=True, error_model="numpy")
def _inner_edge(tree: Tree, g: int, node: int, scratch: F32) -> int:
    visited = scores(tree, g, node, scratch)
    count = tree.width[g, node]
    softmax(scratch, count)
    best, found = 0, np.float32(-2)
    for edge in range(count):
        score = scratch[edge] - np.float32(tree.visits[g, node, edge]) / np.float32(1 + visited)
        if score > found:
            best, found = edge, score
    return best


@numba.njit(cache=True, error_model="numpy")
def _back_up(tree: Tree, g: int, node: int) -> None:
    """Add the vector of *node* along the path that led there."""
    for step in range(tree.depth[g]):
        above, edge = tree.path[g, step, 0], tree.path[g, step, 1]
        tree.visits[g, above, edge] += 1
        tree.total[g, above, edge] += tree.value[g, node, tree.mover[g, above]]
    for seat in range(tree.sums.shape[1]):
        tree.sums[g, seat] += tree.value[g, node, seat]


@numba.njit(cache=True, error_model="numpy")
def _down(tree: Tree, g: int, noise: F32, visits: int, rays: I16, mask: Any, scratch: F32) -> int:
    """One simulation down to a node that wants evaluating; OVER if it ended with an outcome, which is backed up."""
    node, edge = 0, _root_edge(tree, g, noise, visits, scratch)
    depth = 0
    while True:
        tree.path[g, depth, 0], tree.path[g, depth, 1] = node, edge
        depth += 1
        tree.depth[g] = depth
        below = int(tree.child[g, node, edge])
        if below < 0:
            below = int(tree.used[g])
            tree.used[g] += 1
            tree.child[g, node, edge] = below
            tree.board[g, below] = tree.board[g, node]
            mover = tree.mover[g, node]
            apply(tree.board[g, below], mover, tree.cell[g, node, edge], rays)
            if _open(tree, g, below, mover + 1, rays, mask) != OVER:
                return below
            outcome(tree.board[g, below], tree.sums.shape[1], tree.value[g, below])
        if tree.mover[g, below] == OVER:
            _back_up(tree, g, below)
            return OVER
        node, edge = below, _inner_edge(tree, g, below, scratch)


@numba.njit(cache=True, error_model="numpy")
def descend(
    tree: Tree, games: I64, noise: F32, visits: I32, rays: I16, leaves: I32, boards: I8, movers: I8,
) -> int:  # fmt: skip
    """One simulation in each of *games*; how many wait for the network.

    *noise* is [G, cells], *visits* how many visits the root edge must have, by place in *games*.  *leaves* gets the
    game and node of each that waits, *boards* and *movers* what the network is to see.
    """
    mask, scratch = np.empty(boards.shape[1], np.uint8), np.empty(boards.shape[1], np.float32)
    waiting = 0
    for place in range(games.shape[0]):
        g = games[place]
        node = _down(tree, g, noise[g], visits[place], rays, mask, scratch)
        if node != OVER:
            leaves[waiting, 0], leaves[waiting, 1] = g, node
            boards[waiting] = tree.board[g, node]
            movers[waiting] = tree.mover[g, node]
            waiting += 1
    return waiting


@numba.njit(cache=True, error_model="numpy")
def expand(tree: Tree, leaves: I32, count: int, logits: F32, values: F32) -> None:
    """Give the first *count* of *leaves* what the network said, and back it up; a root is backed up nowhere."""
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
            logp = logits[place, tree.cell[g, node, edge]] - shift
            tree.logp[g, node, edge] = logp
            tree.prob[g, node, edge] = max(np.exp(logp), PROB_MIN)
        for seat in range(tree.sums.shape[1]):
            tree.value[g, node, seat] = values[place, seat]
        if node > 0:
            _back_up(tree, g, node)


@numba.njit(cache=True, error_model="numpy")
def conclude(tree: Tree, games: I64, noise: F32, edges: I32, policy: F32, value: F32) -> None:
    """By place in *games*: the edge to play, the policy target [·, cells] over edges, and the root's value [·, P]."""
    for place in range(games.shape[0]):
        g = games[place]
        visited = scores(tree, g, 0, policy[place])
        most = np.int32(0)
        for edge in range(tree.width[g, 0]):
            most = max(most, tree.visits[g, 0, edge])
        best, found = -1, np.float32(0)
        for edge in range(tree.width[g, 0]):
            score = noise[g, tree.cell[g, 0, edge]] + policy[place, edge]
            if tree.visits[g, 0, edge] == most and (best < 0 or score > found):
                best, found = edge, score
        edges[place] = best
        softmax(policy[place], tree.width[g, 0])
        for seat in range(tree.sums.shape[1]):
            value[place, seat] = (tree.value[g, 0, seat] + tree.sums[g, seat]) / np.float32(1 + visited)


@numba.njit(cache=True, error_model="numpy")
def advance(tree: Tree, g: int, edge: int, rays: I16, mask: npt.NDArray[np.uint8]) -> int:
    """Play *edge* at the root; the new root keeps what the network said of it: 1 if it did, else 0, or OVER."""
    below = tree.child[g, 0, edge]
    if below < 0:
        mover, cell = tree.mover[g, 0], tree.cell[g, 0, edge]
        apply(tree.board[g, 0], mover, cell, rays)
        tree.used[g] = 1
        tree.sums[g] = 0
        return OVER if _open(tree, g, 0, mover + 1, rays, mask) == OVER else 0
    count = tree.width[g, below]
    tree.board[g, 0] = tree.board[g, below]
    tree.mover[g, 0], tree.width[g, 0] = tree.mover[g, below], count
    tree.value[g, 0] = tree.value[g, below]
    for at in range(count):
        tree.cell[g, 0, at] = tree.cell[g, below, at]
        tree.logp[g, 0, at], tree.prob[g, 0, at] = tree.logp[g, below, at], tree.prob[g, below, at]
        tree.visits[g, 0, at], tree.total[g, 0, at], tree.child[g, 0, at] = 0, 0, -1
    tree.used[g] = 1
    tree.sums[g] = 0
    return OVER if tree.mover[g, 0] == OVER else 1


@numba.njit(cache=True, error_model="numpy")
def advance_all(
    tree: Tree, games: I64, edges: I32, rays: I16, mask: npt.NDArray[np.uint8], evaluated: npt.NDArray[np.bool_],
) -> None:  # fmt: skip
    """`advance` in each of *games*; *evaluated*, by game, says whether the new root is."""
    for place in range(games.shape[0]):
        evaluated[games[place]] = advance(tree, games[place], edges[place], rays, mask) == 1
