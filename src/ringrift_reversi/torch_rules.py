"""The rules as batched torch operations on bitboards: many games at once, on any device, without host round trips.

A position is ``discs int64[B, players, limbs]``: bit ``place[cell]`` of the network's grid, 64 to a limb, is set where
a player has a disc.  On that grid every direction is one shift, so all rays of all games are walked together.
``mover`` is ``int64[B]``, -1 once a game is over.  The same rules as ``engine.py``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ringrift_reversi.topology import Topology

_LIMB_BITS = 64
_Words = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Lanes:
    """The directions that go up or down through the bits: the length of a step, and the bits a step may end on."""

    rising: bool
    amounts: Tensor
    """int64[D, 1], 0 < amount < 64."""
    rests: Tensor
    """int64[D, 1]: 64 - amount, the carry from the neighbouring limb."""
    lows: Tensor
    """int64[D, 1]: the bits that remain when a limb is shifted down by amount."""
    low_rests: Tensor
    """int64[D, 1]: the same for rests."""
    ends: Tensor
    """int64[D, limbs]: the bits on which a step of this direction can end."""


@dataclass(frozen=True)
class Rules:
    """One board for a number of players, as constants on a device."""

    board: str
    players: int
    cells: int
    limbs: int
    reach: int
    """The most discs that one ray can flip."""
    lanes: tuple[_Lanes, _Lanes]
    limb: Tensor
    """int64[cells]: the limb that holds a cell's bit."""
    bit: Tensor
    """int64[cells]: where in the limb."""
    spots: Tensor
    """int64[cells, limbs]: the bitboard of each cell alone."""
    seats: Tensor
    """int64[players]: 0, 1, …"""
    shares: Tensor
    """float32[players + 1]: the share of each of so many winners; a GPU does not divide exactly to the last bit."""

    @property
    def device(self) -> torch.device:
        """Where the games are."""
        return self.spots.device


def make_rules(topology: Topology, players: int, device: torch.device | str = "cpu") -> Rules:
    """The rules of *topology* as bitboards for *players* on *device*."""
    place = topology.place.astype(np.int64)
    limbs = -(-topology.rows * topology.cols // _LIMB_BITS)
    spots = _bits(place, limbs)
    rising, falling = list[tuple[int, _Words]](), list[tuple[int, _Words]]()
    for direction in range(topology.rays.shape[1]):
        step = topology.rays[:, direction, 0].astype(np.int64)
        on = step >= 0
        shift = set((place[step[on]] - place[on]).tolist())
        assert len(shift) == 1, f"direction {direction} of {topology.name} is not one shift on its grid"
        amount = shift.pop()
        (rising if amount > 0 else falling).append((abs(amount), np.bitwise_or.reduce(spots[step[on]], axis=0)))
    return Rules(
        board=topology.name,
        players=players,
        cells=topology.cells,
        limbs=limbs,
        reach=topology.rays.shape[2] - 1,
        lanes=(_lanes(True, rising, device), _lanes(False, falling, device)),
        limb=torch.as_tensor(place // _LIMB_BITS, device=device),
        bit=torch.as_tensor(place % _LIMB_BITS, device=device),
        spots=torch.as_tensor(spots, device=device),
        seats=torch.arange(players, device=device),
        shares=torch.tensor([0.0, *(1 / tied for tied in range(1, players + 1))], device=device),
    )


def _bits(place: _Words, limbs: int) -> _Words:
    spots = np.zeros((len(place), limbs), np.uint64)
    spots[np.arange(len(place)), place // _LIMB_BITS] = np.uint64(1) << (place % _LIMB_BITS).astype(np.uint64)
    return spots.view(np.int64)


def _lanes(rising: bool, directions: Sequence[tuple[int, _Words]], device: torch.device | str) -> _Lanes:
    amounts = np.array([[amount] for amount, _ in directions], np.int64)
    assert ((amounts > 0) & (amounts < _LIMB_BITS)).all()
    ends = np.stack([ends for _, ends in directions])
    parts = (amounts, _LIMB_BITS - amounts, _low_bits(_LIMB_BITS - amounts), _low_bits(amounts), ends)
    return _Lanes(rising, *(torch.as_tensor(part, device=device) for part in parts))


def _low_bits(count: _Words) -> _Words:
    """The lowest *count* bits set, 0 < count < 64."""
    return ((np.uint64(1) << count.astype(np.uint64)) - np.uint64(1)).view(np.int64)


def _step(lanes: _Lanes, bits: Tensor) -> Tensor:
    """Every bit one step further along each direction: int64[…, D, limbs]."""
    if lanes.rising:
        moved = bits << lanes.amounts
        if bits.shape[-1] > 1:
            carried = (bits[..., :-1] >> lanes.rests) & lanes.low_rests
            moved = moved | torch.nn.functional.pad(carried, (1, 0))
        return moved
    # Torch shifts signed numbers, so the copies of the sign bit must be removed.
    moved = (bits >> lanes.amounts) & lanes.lows
    if bits.shape[-1] > 1:
        moved = moved | torch.nn.functional.pad(bits[..., 1:] << lanes.rests, (0, 1))
    return moved


def _sweep(lanes: _Lanes, start: Tensor, through: Tensor, reach: int) -> Tensor:
    """The discs of *through* in unbroken rows that begin next to *start*, for each direction."""
    reached = _step(lanes, start) & through
    for _ in range(reach - 1):
        reached = reached | (_step(lanes, reached) & through)
    return reached


def _merge(bits: Tensor) -> Tensor:
    """All directions of int64[…, D, limbs] together."""
    return reduce(or_, bits.unbind(-2))


def legal(rules: Rules, discs: Tensor) -> Tensor:
    """The legal cells of each player, int64[B, players, limbs]."""
    occupied = reduce(or_, discs.unbind(1))[:, None]
    mine, others, free = discs[..., None, :], (occupied & ~discs)[..., None, :], ~occupied[..., None, :]
    moves = []
    for lanes in rules.lanes:
        reached = _sweep(lanes, mine, others & lanes.ends, rules.reach)
        moves.append(_merge(_step(lanes, reached) & free & lanes.ends))
    return moves[0] | moves[1]


def apply(rules: Rules, discs: Tensor, mover: Tensor, cell: Tensor) -> Tensor:
    """The discs after each game's *mover* has played *cell*, which must be legal; a finished game does not change."""
    moving = mover[:, None] == rules.seats
    mine = reduce(or_, torch.where(moving[..., None], discs, 0).unbind(1))[:, None]
    others = reduce(or_, discs.unbind(1))[:, None] & ~mine
    spot = rules.spots[cell]
    turned = []
    for lanes in rules.lanes:
        reached = _sweep(lanes, spot[:, None], others & lanes.ends, rules.reach)
        closed = (_step(lanes, reached) & mine & lanes.ends).ne(0).any(-1, keepdim=True)
        turned.append(_merge(torch.where(closed, reached, 0)))
    gained = (turned[0] | turned[1] | spot)[:, None]
    moved = torch.where(moving[..., None], discs | gained, discs & ~gained)
    return torch.where(mover[:, None, None] < 0, discs, moved)


def next_mover(rules: Rules, discs: Tensor, mover: Tensor) -> tuple[Tensor, Tensor]:
    """The seat that moves after *mover* (-1: the game is over), and its legal cells: int64[B, limbs]."""
    moves = legal(rules, discs)
    able = moves.ne(0).any(-1)
    chosen = torch.full_like(mover, -1)
    for ahead in range(rules.players, 0, -1):
        seat = (mover + ahead) % rules.players
        chosen = torch.where(able.gather(1, seat[:, None])[:, 0], seat, chosen)
    chosen = torch.where(mover < 0, mover, chosen)
    return chosen, torch.where(chosen[:, None] < 0, 0, of_seat(moves, chosen))


def of_seat(values: Tensor, seat: Tensor) -> Tensor:
    """Row *seat* (the first where it is -1) of [B, players, …] for each game."""
    index = seat.clamp(min=0).view(-1, *(1,) * (values.dim() - 1)).expand(-1, 1, *values.shape[2:])
    return values.gather(1, index)[:, 0]


def spread(rules: Rules, bits: Tensor) -> Tensor:
    """0 or 1 for each cell of int64[…, limbs]: int64[…, cells]."""
    return (bits[..., rules.limb] >> rules.bit) & 1


def outcome(rules: Rules, discs: Tensor) -> Tensor:
    """Each player's share of first place by discs, float32[B, players]."""
    counts = spread(rules, discs).sum(-1)
    first = counts == counts.amax(1, keepdim=True)
    return torch.where(first, rules.shares[first.sum(1, keepdim=True)], 0)


def pack(rules: Rules, boards: Tensor) -> Tensor:
    """The bitboards of int8[B, cells] with 0 for empty and 1, 2, … for the players' discs."""
    owned = boards[:, None, :] == (rules.seats + 1)[:, None]
    return (owned[..., None] * rules.spots).sum(2)


def unpack(rules: Rules, discs: Tensor) -> Tensor:
    """The int8[B, cells] of *discs*."""
    return (spread(rules, discs) * (rules.seats + 1)[:, None]).sum(1).to(torch.int8)
