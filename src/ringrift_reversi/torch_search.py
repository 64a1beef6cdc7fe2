"""The search of ``search.py`` as batched torch operations: many games at once, without round trips to the host.

The algorithm is described in ``search.py``; with the same evaluator it gives the same root visits.  The implementation:
every game owns one row in tensors that are made once; simulation t makes node t+1 in every game, so a game can be at
most t edges below the root then, and the whole search is one fixed list of kernels, which a CUDA graph replays.  A node
where the game is over never becomes a child: each visit plays the last move again and gets the same outcome.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from ringrift_reversi import torch_rules
from ringrift_reversi.torch_rules import Rules

_CONSIDERED = 16
C_VISIT, C_SCALE = 50.0, 1.0
_COMPILED_LIMBS_MAX = 2
_PROB_MIN = 1e-30  # so that a visited edge always has a weight


class Evaluate(Protocol):
    """A network, or a stub of one."""

    def __call__(self, boards: Tensor, to_move: Tensor) -> tuple[Tensor, Tensor]:
        """For int8[B, cells] and int8[B]: logits [B, cells], and values [B, players] by seat that sum to 1."""


@dataclass(frozen=True)
class Roots:
    """The start of a search: each game's position and its evaluation by the network."""

    discs: Tensor
    """int64[B, players, limbs]."""
    mover: Tensor
    """int64[B]; -1 where the game is over."""
    logp: Tensor
    """float32[B, cells]: the network's policy over the legal cells, -inf elsewhere."""
    vector: Tensor
    """float32[B, players]: the network's value of each seat; the outcome where the game is over."""

    def room(self, rows: int) -> "Roots":
        """Empty roots with *rows* rows."""
        return Roots(*(part.new_zeros(rows, *part.shape[1:]) for part in vars(self).values()))

    def at(self, rows: Tensor | slice | int) -> "Roots":
        """These *rows* of each."""
        return Roots(self.discs[rows], self.mover[rows], self.logp[rows], self.vector[rows])

    def put(self, rows: Tensor | slice | int, other: "Roots") -> None:
        """Write *other* over these *rows*."""
        self.discs[rows] = other.discs
        self.mover[rows] = other.mover
        self.logp[rows] = other.logp
        self.vector[rows] = other.vector


@dataclass(frozen=True)
class SearchResult:
    """The result of a search for each game's position; meaningless where the game is over."""

    action: Tensor
    """int64[B]: the cell to play."""
    visits: Tensor
    """float32[B, cells]: whole numbers that sum to the simulations."""
    policy: Tensor
    """float32[B, cells]: the policy target."""
    value: Tensor
    """float32[B, players]: each seat's expected share of first place."""
    roots: Roots
    """The positions after *action*."""


@dataclass(frozen=True)
class _Tree:
    """The nodes of all games: everything by node, game, and so on."""

    nodes: Roots
    visits: Tensor
    """float32[nodes + 1, B, cells]; here and in worth, the last row is never read."""
    worth: Tensor
    """float32[nodes + 1, B, cells]: the sum of the values for the node's mover."""
    child: Tensor
    """int16[nodes, B, cells]: the node behind an edge; 0 where there is none, since the root is no child."""
    path: Tensor
    """int64[sims, B]: the edges of the simulation under way, as indexes into visits and worth."""
    total: Tensor
    """float32[B, players]: the sum of all vectors."""
    games: Tensor
    """int64[B]: 0, 1, …"""
    nowhere: Tensor
    """int64[B]: for each game an edge that is never read."""
    c_visit: float
    c_scale: float


def _schedule(considered: int, sims: int) -> list[int]:
    """Sequential halving: the visits that the root edge of each simulation has before it."""
    if considered <= 1:
        return list(range(sims))
    rounds, left = math.ceil(math.log2(considered)), considered
    visits, sequence = [0] * considered, list[int]()
    while len(sequence) < sims:
        for _ in range(max(1, sims // (rounds * left))):
            sequence += visits[:left]
            visits[:left] = [count + 1 for count in visits[:left]]
        left = max(2, left // 2)
    return sequence[:sims]


def _tree(rules: Rules, games: int, sims: int, scale: tuple[float, float]) -> _Tree:
    nodes, cells, players, device = sims + 1, rules.cells, rules.players, rules.device
    assert nodes < torch.iinfo(torch.int16).max
    number = torch.arange(games, device=device)
    return _Tree(
        nodes=Roots(
            discs=torch.zeros(nodes, games, players, rules.limbs, dtype=torch.int64, device=device),
            mover=torch.zeros(nodes, games, dtype=torch.int64, device=device),
            logp=torch.zeros(nodes, games, cells, device=device),
            vector=torch.zeros(nodes, games, players, device=device),
        ),
        visits=torch.zeros(nodes + 1, games, cells, device=device),
        worth=torch.zeros(nodes + 1, games, cells, device=device),
        child=torch.zeros(nodes, games, cells, dtype=torch.int16, device=device),
        path=torch.zeros(sims, games, dtype=torch.int64, device=device),
        total=torch.zeros(games, players, device=device),
        games=number,
        nowhere=(nodes * games + number) * cells,
        c_visit=scale[0],
        c_scale=scale[1],
    )


def _scores(tree: _Tree, row: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The edges of the nodes *row*: whether they are legal, their visits, and ``logp + σ(q)`` with completed q."""
    cells, players = tree.visits.shape[2], tree.total.shape[1]
    logp, visits = tree.nodes.logp.view(-1, cells)[row], tree.visits.view(-1, cells)[row]
    seat = tree.nodes.mover.view(-1)[row].clamp(min=0)
    own = tree.nodes.vector.view(-1)[row * players + seat]
    visited, count = visits > 0, visits.sum(1)
    q = tree.worth.view(-1, cells)[row] / visits.clamp(min=1)
    p = torch.where(visited, logp.exp().clamp(min=_PROB_MIN), 0)
    # Without visits the factor count is 0: the mean only has to be a number.
    mean = (p * q).sum(1) / p.sum(1).clamp(min=_PROB_MIN)
    v_mix = (own + count * mean) / (1 + count)
    scale = (tree.c_visit + visits.amax(1)) * tree.c_scale
    return logp > -math.inf, visits, logp + scale[:, None] * torch.where(visited, q, v_mix[:, None])


def _at_root(tree: _Tree, noise: Tensor, visits_due: Tensor) -> tuple[Tensor, Tensor]:
    """The root edge of this simulation in each game, and the node behind it."""
    legal, visits, scores = _scores(tree, tree.games)
    action = torch.where(legal & (visits == visits_due[:, None]), noise + scores, -math.inf).argmax(1)
    return action, tree.child[0].gather(1, action[:, None])[:, 0].long()


def _below(tree: _Tree, node: Tensor, action: Tensor, child: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """One edge further down where there is a child: node, action, the child behind them, and the edge for the path."""
    _, games, cells = tree.child.shape
    has_child = child > 0
    node = torch.where(has_child, child, node)
    row = node * games + tree.games
    legal, visits, scores = _scores(tree, row)
    balance = scores.softmax(1) - visits / (1 + visits.sum(1, keepdim=True))
    chosen = torch.where(legal, balance, -math.inf).argmax(1)
    action = torch.where(has_child, chosen, action)
    edge = row * cells + action
    child = torch.where(has_child, tree.child.view(-1)[edge].long(), 0)
    return node, action, child, torch.where(has_child, edge, tree.nowhere)


def _play(rules: Rules, tree: _Tree, node: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The position behind each game's *action* in *node*: discs, mover, and where the mover can move."""
    row = node * len(tree.games) + tree.games
    discs = tree.nodes.discs.view(-1, rules.players, rules.limbs)[row]
    mover = tree.nodes.mover.view(-1)[row]
    discs = torch_rules.apply(rules, discs, mover, action)
    return discs, *torch_rules.next_mover(rules, discs, mover)


def _judge(rules: Rules, evaluate: Evaluate, discs: Tensor, mover: Tensor, moves: Tensor) -> tuple[Tensor, Tensor]:
    """The network's evaluation of each position: logp and the vector, which is the outcome where the game is over."""
    logits, values = evaluate(torch_rules.unpack(rules, discs), mover.clamp(min=0).to(torch.int8))
    legal = torch_rules.spread(rules, moves).bool()
    logits = torch.where(legal, logits.float(), -math.inf)
    logp = torch.where(legal, logits - logits.logsumexp(1, keepdim=True), -math.inf)
    return logp, torch.where(mover[:, None] < 0, torch_rules.outcome(rules, discs), values.float())


def _gains(tree: _Tree, vector: Tensor) -> Tensor:
    """The gain of each edge of the path by this simulation: the value for its node's mover."""
    nodes, games, cells = tree.child.shape
    node = (tree.path // cells).clamp(max=nodes * games - 1)
    seat = tree.nodes.mover.view(-1)[node].clamp(min=0)
    return vector.view(-1)[tree.games * vector.shape[1] + seat]


def _conclude(rules: Rules, tree: _Tree, noise: Tensor) -> SearchResult:
    legal, visits, scores = _scores(tree, tree.games)
    most = legal & (visits == visits.amax(1, keepdim=True))
    action = torch.where(most, noise + scores, -math.inf).argmax(1)
    discs, mover, _ = _play(rules, tree, torch.zeros_like(action), action)
    # The played edge was visited: it has no child only where the game is over then.
    child = tree.child[0].gather(1, action[:, None])[:, 0].long() * len(action) + tree.games
    logp = tree.nodes.logp.view(-1, rules.cells)[child]
    vector = tree.nodes.vector.view(-1, rules.players)[child]
    vector = torch.where(mover[:, None] < 0, torch_rules.outcome(rules, discs), vector)
    value = tree.total / (len(tree.path) + 1)
    return SearchResult(action, visits.clone(), scores.softmax(1), value, Roots(discs, mover, logp, vector))


class Search:
    """Searches a fixed number of games at once; *compiled* and *graphed* help on a GPU only."""

    def __init__(
        self,
        rules: Rules,
        evaluate: Evaluate,
        *,
        games: int,
        sims: int,
        scale: tuple[float, float] = (C_VISIT, C_SCALE),
        compiled: bool = False,
        graphed: bool = False,
    ) -> None:
        self.rules, self._evaluate, self._graphed = rules, evaluate, graphed
        self._tree = _tree(rules, games, sims, scale)
        schedules = [_schedule(min(considered, sims), sims) for considered in range(_CONSIDERED + 1)]
        self._schedule = torch.tensor(schedules, dtype=torch.float32, device=rules.device)
        self._noise = torch.zeros(games, rules.cells, device=rules.device)
        self._unit_visits = torch.ones(sims * games, device=rules.device)
        wrap: Callable[[Any], Any] = partial(torch.compile, dynamic=False) if compiled else lambda plain: plain
        self._at_root, self._below = wrap(_at_root), wrap(_below)
        self._judge, self._gains = wrap(_judge), wrap(_gains)
        # On big boards it takes minutes to compile the rules, and the network is what takes the time there.
        wrap = wrap if rules.limbs <= _COMPILED_LIMBS_MAX else lambda plain: plain
        self._play, self._conclude = wrap(_play), wrap(_conclude)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._result: SearchResult | None = None

    @torch.no_grad()
    def look(self, discs: Tensor, mover: Tensor) -> Roots:
        """The roots at int64[B, players, limbs] with int64[B] to move (-1: over); for new games."""
        moves = torch_rules.of_seat(torch_rules.legal(self.rules, discs), mover)
        moves = torch.where(mover[:, None] < 0, 0, moves)
        return Roots(discs, mover, *self._judge(self.rules, self._evaluate, discs, mover, moves))

    @torch.no_grad()
    def run(self, roots: Roots, noise: Tensor) -> SearchResult:
        """Search from *roots* with Gumbel *noise* float32[B, cells]; the result is valid until the next search."""
        self._tree.nodes.put(0, roots)
        self._noise.copy_(noise)
        if not self._graphed:
            return self._search()
        if self._graph is None:
            self._capture()
        assert self._graph is not None
        assert self._result is not None
        self._graph.replay()
        return self._result

    def _capture(self) -> None:
        """Record the whole search once, after one run that compiles and allocates everything."""
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._search()
        torch.cuda.current_stream().wait_stream(stream)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._result = self._search()

    def _search(self) -> SearchResult:
        tree = self._tree
        for rest in (tree.visits, tree.worth, tree.child):
            rest.zero_()
        tree.path.copy_(tree.nowhere.expand_as(tree.path))
        tree.total.copy_(tree.nodes.vector[0])
        legal = (tree.nodes.logp[0] > -math.inf).sum(1)
        visits_due = self._schedule[legal.clamp(max=_CONSIDERED)].t().contiguous()
        for number in range(len(tree.path)):
            self._simulate(number, visits_due[number])
        return self._conclude(self.rules, tree, self._noise)  # type: ignore[no-any-return]  # lost by compiling

    def _simulate(self, number: int, visits_due: Tensor) -> None:
        tree = self._tree
        _, games, cells = tree.child.shape
        action, child = self._at_root(tree, self._noise, visits_due)
        node = torch.zeros_like(action)
        tree.path[0].copy_(tree.games * cells + action)
        for depth in range(1, number + 1):
            # The host checks only where that costs nothing.
            if not child.is_cuda and not child.any():
                tree.path[depth:].copy_(tree.nowhere)
                break
            node, action, child, edge = self._below(tree, node, action, child)
            tree.path[depth].copy_(edge)
        leaf = (node * games + tree.games) * cells + action
        discs, mover, moves = self._play(self.rules, tree, node, action)
        evaluation = self._judge(self.rules, self._evaluate, discs, mover, moves)
        tree.nodes.put(number + 1, Roots(discs, mover, *evaluation))
        tree.child.view(-1).scatter_(0, leaf, torch.where(mover < 0, 0, number + 1).to(torch.int16))
        # Not compiled: compiled code would copy the whole tree for a change in place.
        edges, gains = tree.path.view(-1), self._gains(tree, evaluation[1]).view(-1)
        tree.visits.view(-1).scatter_add_(0, edges, self._unit_visits)
        tree.worth.view(-1).scatter_add_(0, edges, gains)
        tree.total.add_(evaluation[1])
