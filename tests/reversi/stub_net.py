"""A stand-in for a network: pseudo-random numbers that depend on the whole position and are exact in float32."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

_PRIME = 2_147_483_647


@dataclass(frozen=True)
class StubNet:
    """Evaluates a position to the same bits on every device: everything is counted in whole numbers."""

    players: int
    cells: int
    device: str = "cpu"

    def __call__(self, boards: Tensor, to_move: Tensor) -> tuple[Tensor, Tensor]:
        """Evaluate for the torch search."""
        cell = torch.arange(1, self.cells + 1, device=self.device)
        mark = (boards.long() * (cell * cell * 7919 % 104_729)).sum(1) + to_move.long() * 611_953
        mark = (mark % 999_983 + 17)[:, None]
        logits = (mark * (mark + cell * 48_271) % _PRIME) >> 21
        seat = torch.arange(1, self.players, device=self.device)
        parts = (((mark + 3) * (mark + seat * 69_621) % _PRIME) >> 20) % 15 + 1
        parts = torch.cat((parts, 64 - parts.sum(1, keepdim=True)), 1)
        return logits.float() / 256 - 2, parts.float() / 64

    def on_host(
        self, boards: npt.NDArray[np.int8], to_move: npt.NDArray[np.int8]
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Evaluate for the search on the CPU."""
        logits, values = self(torch.from_numpy(boards), torch.from_numpy(to_move))
        return logits.numpy(), values.numpy()
