"""The random numbers of ``rng.py`` as batched torch operations: the same numbers from the same seeds, on any device."""

import torch
from torch import Tensor

from ringrift_reversi import torch_rules
from ringrift_reversi.torch_rules import Rules

LENGTH, CAP, NOISE = 1, 2, 3
_WORD = 2**64


def _signed(number: int) -> int:
    """The int64 with the bits of the uint64 *number*."""
    return (number + _WORD // 2) % _WORD - _WORD // 2


_PLY, _PURPOSE = _signed(0x9E3779B97F4A7C15), _signed(0xD1B54A32D192ED03)
_MIX_1, _MIX_2 = _signed(0xBF58476D1CE4E5B9), _signed(0x94D049BB133111EB)


def _down(word: Tensor, bits: int) -> Tensor:
    """*word* as uint64, shifted down."""
    return (word >> bits).bitwise_and(2 ** (64 - bits) - 1)


def _finish(z: Tensor) -> Tensor:
    """The finaliser of splitmix64."""
    z = (z ^ _down(z, 30)) * _MIX_1
    z = (z ^ _down(z, 27)) * _MIX_2
    return z ^ _down(z, 31)


def _mix(seed: Tensor, first: Tensor, second: Tensor | int) -> Tensor:
    """A number of 63 bits from three."""
    term = (second + 1) * _PURPOSE
    # Torch wraps around by itself, Python does not.
    term = _signed(term) if isinstance(term, int) else term
    return _down(_finish(seed + (first + 1) * _PLY + term), 1)


def fraction(seed: Tensor, ply: Tensor, purpose: Tensor | int) -> Tensor:
    """A float64 above 0 and below 1."""
    return ((_mix(seed, ply, purpose) >> 10).double() + 0.5) * 2.0**-53


def seeds(job: int, numbers: Tensor) -> Tensor:
    """The seeds of the games with these *numbers* in the job with the seed *job*."""
    return _mix(torch.full_like(numbers, _signed(job)), numbers, 0)


def noise(seed: Tensor, ply: Tensor, cells: int) -> Tensor:
    """Gumbel noise float32[B, cells] for one ply of each game."""
    purpose = NOISE + torch.arange(cells, device=seed.device)
    return -(-fraction(seed[:, None], ply[:, None], purpose).log()).log().float()


def openings(rules: Rules, discs: Tensor, seed: Tensor, plies_max: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Random openings from the start *discs*: the plies of each, its moves, and the discs and mover after it.

    A game that would be over within its opening gets half as many random plies, until it is not.
    """
    mover = torch.zeros_like(seed)
    before, movers, moves, state = [discs], [mover], [], seed
    for _ in range(plies_max):
        state = state + _PLY
        legal = torch_rules.spread(rules, torch_rules.of_seat(torch_rules.legal(rules, discs), mover))
        chosen = _down(_down(_finish(state), 32) * legal.sum(1), 32)
        moves.append((legal.cumsum(1) > chosen[:, None]).to(torch.uint8).argmax(1))
        discs = torch_rules.apply(rules, discs, mover, moves[-1])
        mover, _ = torch_rules.next_mover(rules, discs, mover)
        before.append(discs)
        movers.append(mover)
    plies = (fraction(seed, torch.zeros_like(seed), LENGTH) * (plies_max + 1)).long()
    mover_at, discs_at, games = torch.stack(movers), torch.stack(before), torch.arange(len(seed), device=seed.device)
    for _ in range(plies_max.bit_length()):
        plies = torch.where(mover_at[plies, games] < 0, plies // 2, plies)
    played = torch.stack(moves, 1) if moves else seed.new_zeros(len(seed), 0)
    return plies, played, discs_at[plies, games], mover_at[plies, games]
