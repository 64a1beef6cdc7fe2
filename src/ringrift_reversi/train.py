"""Train: AdamW on samples, with symmetries; every step depends on the seed and its number alone.

Loss: cross-entropy of the policy over the legal cells, where there is a policy target, plus cross-entropy of the value
over seats.  The value target mixes the result of the game with the value of the search (`root_share`).  The learning
rate rises over the first 20 steps, stays, and falls to a tenth over the last fifth: falling earlier costs strength.
Games whose seed is a multiple of HELD_OUT are never trained on; the losses on them are reported.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

from ringrift_reversi import tensors
from ringrift_reversi.engine import is_legal
from ringrift_reversi.net import Net, channels_last
from ringrift_reversi.samples import Samples
from ringrift_reversi.topology import VARIANTS, topology
from ringrift_reversi.tree import F32, I8, I16, I64

_HELD_OUT = 32
_HELD_OUT_MAX = 4096  # positions over which the final losses are computed
_WARM_STEPS = 20
_FALL_SHARE, _FALL_TO = 0.2, 0.1
_CLIP = 1.0
_RECENT_STEPS = 32  # steps whose losses are averaged


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """Settings of a training."""

    steps: int
    batch: int = 256
    lr: float = 2e-3
    weight_decay: float = 1e-4
    root_share: float = 0.25
    average: float = 0.0
    """Decay of the moving average of the weights that is published; 0 = none."""

    def lr_at(self, step: int) -> float:
        """The learning rate of *step*."""
        left = (self.steps - step) / max(1.0, _FALL_SHARE * self.steps)
        return self.lr * min(1.0, (step + 1) / _WARM_STEPS) * min(1.0, _FALL_TO + (1 - _FALL_TO) * left)


class Trainer:
    """Trains *net* in place by *config*."""

    def __init__(self, net: Net, samples: Samples, config: TrainConfig, seed: int) -> None:
        board, self._players = VARIANTS[net.variant]
        shape = topology(board)
        self.net = channels_last(net.train())
        self.step = 0
        self._samples, self._config, self._seed = samples, config, seed
        self._rays, self._place, self._symmetries = shape.rays, shape.place, shape.symmetries
        self._grid = (shape.rows, shape.cols)
        is_held_out = samples.game % _HELD_OUT == 0
        self._train, self._held_out = np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)[:_HELD_OUT_MAX]
        if not len(self._train):
            self._train, self._held_out = np.arange(len(samples)), np.arange(0)
        self._parameters = list(net.parameters())
        self._optimiser = torch.optim.AdamW(
            self._parameters, lr=config.lr, weight_decay=config.weight_decay, fused=True
        )
        self._average = [weight.detach().clone() for weight in self._parameters]
        self._epoch = (-1, self._train)
        self._pi = samples.pi_p.astype(np.float32)
        self._pi /= np.maximum(self._pi.sum(1, keepdims=True), 1e-6)
        share = np.float32(config.root_share)
        self._target = (1 - share) * samples.result + share * samples.root_v.astype(np.float32)
        self._recent: deque[tuple[float, float]] = deque(maxlen=_RECENT_STEPS)

    def advance(self) -> None:
        """Do one step."""
        config = self._config
        rows = self.rows(self.step)
        for group in self._optimiser.param_groups:
            group["lr"] = config.lr_at(self.step)
        turns = np.random.default_rng([self._seed, 1, self.step]).integers(len(self._symmetries), size=len(rows))
        policy, value = self.loss(rows, turns)
        self._optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(policy + value)
        torch.nn.utils.clip_grad_norm_(self._parameters, _CLIP, foreach=True)
        self._optimiser.step()
        self.step += 1
        if config.average:
            # Young averages decay faster, otherwise the first weights would dominate for ever.
            decay = min(config.average, self.step / (self.step + 10))
            torch._foreach_lerp_(self._average, [weight.detach() for weight in self._parameters], 1 - decay)
        self._recent.append((policy.item(), value.item()))

    def losses(self) -> dict[str, float]:
        """The losses on what is trained on: the mean of the last steps, since a single one is mostly noise."""
        means = [sum(column) / len(self._recent) for column in zip(*self._recent, strict=True)]
        return _named("", *means) if means else {}

    def finish(self) -> dict[str, float]:
        """Put the averaged weights into the network; the losses, also on held-out games."""
        if self._config.average:
            with torch.no_grad():
                for weight, mean in zip(self._parameters, self._average, strict=True):
                    weight.copy_(mean)
        losses = self.losses()
        if len(self._held_out):
            with torch.no_grad():
                policy, value = self.loss(self._held_out, np.zeros(len(self._held_out), np.int64))
            losses |= _named("held_out_", policy.item(), value.item())
        return losses

    def state(self) -> dict[str, tensors.Array]:
        """Everything on which the next step depends."""
        arrays = {"step": np.array([self.step], np.int64)}
        for number, weight in enumerate(self._parameters):
            moments = self._optimiser.state[weight]
            tensors_of = (weight, self._average[number], moments["exp_avg"], moments["exp_avg_sq"])
            parts = zip(_PARTS, tensors_of, strict=True)
            arrays |= {f"{name}.{number}": part.detach().contiguous().numpy() for name, part in parts}
        return arrays

    def restore(self, state: Mapping[str, tensors.Array]) -> None:
        """Continue from a `state`.  Raises ValueError if it is of another training."""
        try:
            step = int(state["step"][0])
            for number, weight in enumerate(self._parameters):
                parts = {name: torch.from_numpy(state[f"{name}.{number}"].copy()) for name in _PARTS}
                with torch.no_grad():
                    weight.copy_(parts["weight"])
                    self._average[number].copy_(parts["average"])
                like = torch.empty_like(weight)
                self._optimiser.state[weight] = {
                    "step": torch.tensor(float(step)),
                    "exp_avg": like.clone().copy_(parts["first"]),
                    "exp_avg_sq": like.clone().copy_(parts["second"]),
                }
        except (KeyError, IndexError, RuntimeError) as error:
            raise ValueError("the checkpoint is of another training") from error
        self.step = step

    def rows(self, step: int) -> I64:
        """The samples of *step*: each is used once before any is used again."""
        count, batch = len(self._train), self._config.batch
        places = np.arange(step * batch, (step + 1) * batch)
        rows = np.empty(batch, np.int64)
        for epoch in range(int(places[0]) // count, int(places[-1]) // count + 1):
            here = places // count == epoch
            rows[here] = self._shuffled(epoch)[places[here] % count]
        return rows

    def _shuffled(self, epoch: int) -> I64:
        if self._epoch[0] != epoch:
            self._epoch = (epoch, np.random.default_rng([self._seed, 0, epoch]).permutation(self._train))
        return self._epoch[1]

    def loss(self, rows: I64, turns: I64) -> tuple[torch.Tensor, torch.Tensor]:
        """The losses of policy and value over the samples *rows*, each turned by its symmetry."""
        count, cells, seats = len(rows), len(self._place), self._players
        planes = np.zeros((count, self._grid[0] * self._grid[1], seats + 1), np.float32)
        planes[:, self._place, seats] = 1
        illegal, policy = np.zeros((count, cells), np.float32), np.zeros((count, cells), np.float32)
        value = np.zeros((count, seats), np.float32)
        samples = self._samples.board, self._samples.to_move, self._samples.pi_idx, self._pi, self._target
        shape = self._symmetries, self._place, self._rays
        _gather(samples, rows, turns, shape, (planes, illegal, policy, value))
        inputs = torch.from_numpy(planes).view(count, *self._grid, seats + 1).permute(0, 3, 1, 2)
        logits, values = self.net(inputs)
        logp = functional.log_softmax(logits + torch.from_numpy(illegal), 1)
        with_policy = max(1, int((policy > 0).any(1).sum()))
        return (
            -(torch.from_numpy(policy) * logp).sum() / with_policy,
            -(torch.from_numpy(value) * functional.log_softmax(values, 1)).sum() / count,
        )


def _named(prefix: str, policy: float, value: float) -> dict[str, float]:
    """A loss and its parts, by the names of metrics."""
    return {f"{prefix}loss": policy + value, f"{prefix}policy_loss": policy, f"{prefix}value_loss": value}


_PARTS = ("weight", "average", "first", "second")
_ILLEGAL = np.float32(-1e4)  # added to the logits of illegal cells
_SampleArrays = tuple[I8, I8, npt.NDArray[np.uint16], F32, F32]
"""Boards, movers, cells and probabilities of the policy targets, value targets."""


@numba.njit(cache=True)
def _gather(
    samples: _SampleArrays, rows: I64, turns: I64, shape: tuple[I16, I16, I16], out: tuple[F32, F32, F32, F32]
) -> None:
    """Write inputs and targets of *rows*, each turned, into *out*; seats are counted from the mover."""
    board, to_move, pi_idx, pi, target = samples
    symmetries, place, rays = shape
    planes, illegal, policy, value = out
    players = value.shape[1]
    for at in range(rows.shape[0]):
        row, turn = rows[at], symmetries[turns[at]]
        mover = int(np.int64(to_move[row]))
        for cell in range(place.shape[0]):
            disc = board[row, cell]
            if disc > 0:
                planes[at, place[turn[cell]], (disc - 1 - mover + players) % players] = 1
            if disc > 0 or not is_legal(board[row], mover, cell, rays):
                illegal[at, turn[cell]] = _ILLEGAL
        for rank in range(pi.shape[1]):
            if pi[row, rank] > 0:
                policy[at, turn[pi_idx[row, rank]]] = pi[row, rank]
        for seat in range(players):
            value[at, seat] = target[row, (mover + seat) % players]
