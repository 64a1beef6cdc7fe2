"""Chance in torch draws what chance on the CPU draws."""

import numpy as np
import pytest
import torch

from ringrift_reversi import rng, torch_rng, torch_rules
from ringrift_reversi.topology import VARIANTS, start, topology


def test_the_same_seeds_give_the_same_numbers() -> None:
    """Seeds of games, fractions and noise are those of the CPU, whatever the sign of their bits."""
    for job in (0, 1, 2**63 + 5, 2**64 - 1):
        numbers = torch.arange(20)

        seeds = torch_rng.seeds(job, numbers)
        shares = torch_rng.fraction(seeds, numbers, torch_rng.CAP)
        noise = torch_rng.noise(seeds, numbers, 61)

        for number, seed in enumerate(seeds.tolist()):
            assert seed == rng.mix(np.uint64(job), number, 0)
            assert shares[number] == rng.fraction(seed, number, rng.CAP)
            expected = [rng.fraction(seed, number, rng.NOISE + cell) for cell in range(61)]
            assert np.allclose(noise[number], -np.log(-np.log(expected)), rtol=1e-6)


@pytest.mark.parametrize("variant", ["square8_2p", "hex8_4p"])
def test_the_same_seeds_give_the_same_openings(variant: str) -> None:
    """Random moves, the discs after them and the seat to move there are those of the CPU."""
    board, players = VARIANTS[variant]
    shape, plies_most = topology(board), 9
    rules, begin = torch_rules.make_rules(shape, players), start(board, players)
    seeds = torch_rng.seeds(3, torch.arange(120))

    discs = torch_rules.pack(rules, torch.from_numpy(begin).expand(120, -1))
    plies, moves, discs, movers = torch_rng.openings(rules, discs, seeds, plies_most)

    assert set(plies.tolist()) == set(range(plies_most + 1))
    for game, seed in enumerate(seeds.tolist()):
        count, played, after = int(plies[game]), np.zeros(shape.cells, np.uint16), begin.copy()
        assert count == int(rng.fraction(seed, 0, rng.LENGTH) * (plies_most + 1))
        assert movers[game] == rng.opening(after, count, players, shape.rays, seed, played)
        assert moves[game, :count].tolist() == played[:count].tolist()
        assert (torch_rules.unpack(rules, discs)[game].numpy() == after).all()
