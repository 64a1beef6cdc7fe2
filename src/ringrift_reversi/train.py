"""Train: AdamW on samples, with symmetries; every step is a function of the seed and its number.

Loss: cross-entropy of the policy over the legal cells, where there is a policy target, plus cross-entropy of the value
over seats.  The value target mixes how the game ended with what the search thought (`root_share`).  The learning rate
rises over the first WARM_STEPS, stays, and falls to a tenth over the last fifth: falling earlier costs strength.  Games
whose seed is a multiple of HELD_OUT are never trained on; the losses on them are reported.
"""

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

HELD_OUT = 32
HELD_OUT_MAX = 4096  # positions that the final losses are taken over
WARM_STEPS = 20
FALL_SHARE, FALL_TO = 0.2, 0.1
CLIP = 1.0
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Course:
    """How a training goes."""

    steps: int
    batch: int = 256
    lr: float = 2e-3
    weight_decay: float = 1e-4
    root_share: float = 0.25
    average: float = 0.0
    """Decay of the moving average of the weights that is published; 0 = none."""

    def lr_at(self, step: int) -> float:
        """The learning rate of *step*."""
        left = (self.steps - step) / max(1.0, FALL_SHARE * self.steps)
        return self.lr * min(1.0, (step + 1) / WARM_STEPS) * min(1.0, FALL_TO + (1 - FALL_TO) * left)


class Trainer:
    """*net* on its way through *course*; it is changed in place."""

    def __init__(self, net: Net, samples: Samples, course: Course, seed: int) -> None:
        board, self._players = VARIANTS[net.variant]
        shape = topology(board)
        self.net = channels_last(net.train())
        self.step = 0
        self._samples, self._course, self._seed = samples, course, seed
        self._rays, self._place, self._symmetries = shape.rays, shape.place, shape.symmetries
        self._grid = (shape.rows, shape.cols)
        held = samples.game % HELD_OUT == 0
        self._train, self._held = np.flatnonzero(~held), np.flatnonzero(held)[:HELD_OUT_MAX]
        if not len(self._train):
            self._train, self._held = np.arange(len(samples)), np.arange(0)
        self._parameters = list(net.parameters())
        self._optimiser = torch.optim.AdamW(
            self._parameters, lr=course.lr, weight_decay=course.weight_decay, fused=True
        )
        self._average = [weight.detach().clone() for weight in self._parameters]
        self._epoch = (-1, self._train)
        self._pi = samples.pi_p.astype(np.float32)
        self._pi /= np.maximum(self._pi.sum(1, keepdims=True), 1e-6)
        share = np.float32(course.root_share)
        self._target = (1 - share) * samples.result + share * samples.root_v.astype(np.float32)
        self.losses: dict[str, float] = {}

    def advance(self) -> None:
        """One step."""
        course = self._course
        rows = self.rows(self.step)
        for group in self._optimiser.param_groups:
            group["lr"] = course.lr_at(self.step)
        turns = np.random.default_rng([self._seed, 1, self.step]).integers(len(self._symmetries), size=len(rows))
        policy, value = self.loss(rows, turns)
        self._optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(policy + value)
        torch.nn.utils.clip_grad_norm_(self._parameters, CLIP, foreach=True)
        self._optimiser.step()
        self.step += 1
        if course.average:
            # Younger averages forget faster, or the first weights would weigh in for ever.
            decay = min(course.average, self.step / (self.step + 10))
            torch._foreach_lerp_(self._average, [weight.detach() for weight in self._parameters], 1 - decay)
        self.losses = {"policy_loss": policy.item(), "value_loss": value.item()}

    def finish(self) -> dict[str, float]:
        """Put the averaged weights into the network; the losses, on games that were held out too."""
        if self._course.average:
            with torch.no_grad():
                for weight, mean in zip(self._parameters, self._average, strict=True):
                    weight.copy_(mean)
        found = dict(self.losses)
        if len(self._held):
            with torch.no_grad():
                policy, value = self.loss(self._held, np.zeros(len(self._held), np.int64))
            found |= {"held_out_policy_loss": policy.item(), "held_out_value_loss": value.item()}
        return found

    def state(self) -> dict[str, tensors.Array]:
        """Everything that the next step depends on."""
        found = {"step": np.array([self.step], np.int64)}
        for number, weight in enumerate(self._parameters):
            kept = self._optimiser.state[weight]
            parts = zip(_PARTS, (weight, self._average[number], kept["exp_avg"], kept["exp_avg_sq"]), strict=True)
            found |= {f"{name}.{number}": part.detach().contiguous().numpy() for name, part in parts}
        return found

    def restore(self, state: Mapping[str, tensors.Array]) -> None:
        """Go on from what `state` gave.  Raises ValueError if it is of another training."""
        try:
            step = int(state["step"][0])
            for number, weight in enumerate(self._parameters):
                found = {name: torch.from_numpy(state[f"{name}.{number}"].copy()) for name in _PARTS}
                with torch.no_grad():
                    weight.copy_(found["weight"])
                    self._average[number].copy_(found["average"])
                like = torch.empty_like(weight)
                self._optimiser.state[weight] = {
                    "step": torch.tensor(float(step)),
                    "exp_avg": like.clone().copy_(found["first"]),
                    "exp_avg_sq": like.clone().copy_(found["second"]),
                }
        except (KeyError, IndexError, RuntimeError) as other:
            raise ValueError("the checkpoint is of another training") from other
        self.step = step

    def rows(self, step: int) -> npt.NDArray[np.int64]:
        """The samples of *step*: each comes once before any comes again."""
        count, batch = len(self._train), self._course.batch
        places = np.arange(step * batch, (step + 1) * batch)
        found = np.empty(batch, np.int64)
        for epoch in range(int(places[0]) // count, int(places[-1]) // count + 1):
            here = places // count == epoch
            found[here] = self._shuffled(epoch)[places[here] % count]
        return found

    def _shuffled(self, epoch: int) -> npt.NDArray[np.int64]:
        if self._epoch[0] != epoch:
            self._epoch = (epoch, np.random.default_rng([self._seed, 0, epoch]).permutation(self._train))
        return self._epoch[1]

    def loss(self, rows: npt.NDArray[np.int64], turns: npt.NDArray[np.int64]) -> tuple[torch.Tensor, torch.Tensor]:
        """The policy's and the value's loss over the samples *rows*, each turned by its symmetry."""
        count, cells, seats = len(rows), len(self._place), self._players
        planes = np.zeros((count, self._grid[0] * self._grid[1], seats + 1), np.float32)
        planes[:, self._place, seats] = 1
        barred, policy = np.zeros((count, cells), np.float32), np.zeros((count, cells), np.float32)
        value = np.zeros((count, seats), np.float32)
        _gather(
            self._samples.board, self._samples.to_move, self._samples.pi_idx, self._pi, self._target, rows, turns,
            self._symmetries, self._place, self._rays, planes, barred, policy, value,
        )  # fmt: skip
        seen = torch.from_numpy(planes).view(count, *self._grid, seats + 1).permute(0, 3, 1, 2)
        logits, values = self.net(seen)
        wanted = torch.from_numpy(policy)
        told = functional.log_softmax(logits + torch.from_numpy(barred), 1)
        with_policy = max(1, int((policy > 0).any(1).sum()))
        return (
            -(wanted * told).sum() / with_policy,
            -(torch.from_numpy(value) * functional.log_softmax(values, 1)).sum() / count,
        )


_PARTS = ("weight", "average", "first", "second")
_BARRED = np.float32(-1e4)


@numba.njit(cache=True)
def _gather(
    board: npt.NDArray[np.int8], to_move: npt.NDArray[np.int8], pi_idx: npt.NDArray[np.uint16], pi: Floats,
    target: Floats, rows: npt.NDArray[np.int64], turns: npt.NDArray[np.int64],
    symmetries: npt.NDArray[np.int16], place: npt.NDArray[np.int16], rays: npt.NDArray[np.int16], planes: Floats,
    barred: Floats, policy: Floats, value: Floats,
) -> None:  # fmt: skip
    """What the network sees and should say of *rows*, turned; seats are counted from the mover on."""
    players = value.shape[1]
    for at in range(rows.shape[0]):
        row, turn = rows[at], symmetries[turns[at]]
        mover = int(np.int64(to_move[row]))
        for cell in range(place.shape[0]):
            disc = board[row, cell]
            if disc > 0:
                planes[at, place[turn[cell]], (disc - 1 - mover + players) % players] = 1
            if disc > 0 or not is_legal(board[row], mover, cell, rays):
                barred[at, turn[cell]] = _BARRED
        for rank in range(pi.shape[1]):
            if pi[row, rank] > 0:
                policy[at, turn[pi_idx[row, rank]]] = pi[row, rank]
        for seat in range(players):
            value[at, seat] = target[row, (mover + seat) % players]
