"""The search in torch visits what the search of the CPU visits."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from reversi.stub_net import StubNet
from ringrift_reversi import search as cpu
from ringrift_reversi import tensors, torch_rng, torch_rules
from ringrift_reversi.topology import VARIANTS, start, topology
from ringrift_reversi.torch_search import Roots, Search

PLIES_MOST = 58
RECORDED = Path(__file__).parents[2] / "bench" / "reversi_visits.safetensors"


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """These tensors are small: more threads only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def positions(rules: torch_rules.Rules, count: int, plies: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return positions after up to *plies* random moves where a player can move."""
    begin = torch.from_numpy(start(rules.board, rules.players)).expand(count, -1)
    seeds = torch_rng.seeds(count, torch.arange(count))
    _, _, discs, mover = torch_rng.openings(rules, torch_rules.pack(rules, begin), seeds, plies)
    return discs, mover


def searched(variant: str, count: int, sims: int) -> tuple[Search, Roots, torch.Tensor, cpu.Search]:
    """The same positions and noise in both searches."""
    board, players = VARIANTS[variant]
    rules = torch_rules.make_rules(topology(board), players)
    discs, mover = positions(rules, count, min(rules.cells - 6, PLIES_MOST))
    search = Search(rules, StubNet(players, rules.cells), games=count, sims=sims)
    noise = torch_rng.noise(torch.arange(count), torch.zeros(count, dtype=torch.int64), rules.cells)
    other = cpu.Search(variant, games=count, sims=sims)
    for game, position in enumerate(torch_rules.unpack(rules, discs).numpy()):
        other.put(game, position, int(mover[game]))
    other.noise[:] = noise.numpy()
    return search, search.look(discs, mover), noise, other


@pytest.mark.parametrize(
    ("variant", "count", "sims"),
    [
        *((f"{board}_{players}p", 64, 32) for board in ("square8", "hex8") for players in (2, 3, 4)),
        *(("square8_2p", 64, 1), ("hex8_3p", 64, 7), ("square19_3p", 4, 24), ("hexagonal_2p", 4, 24)),
    ],
)
def test_root_visits_are_those_of_the_cpu(variant: str, count: int, sims: int) -> None:
    """From positions of all phases, both visit the same cells equally often, play the same and value it the same."""
    search, roots, noise, other = searched(variant, count, sims)
    every = np.arange(count)

    actual = search.run(roots, noise)

    expected = other.run(
        every, StubNet(VARIANTS[variant][1], search.rules.cells).on_host, np.full(count, sims, np.int32)
    )
    visits = other.visits(every)
    assert (visits.sum(1) == sims).all()
    assert (actual.visits.numpy() == visits).all()
    assert (actual.action.numpy() == expected.cell).all()
    assert np.allclose(actual.value, expected.value, atol=1e-6)


def test_the_recorded_visits_are_those_of_the_cpu() -> None:
    """The benchmark's reference for a GPU equals the visits of the CPU search today."""
    arrays, words = tensors.unpack(RECORDED.read_bytes())
    sims = int(words["sims"])
    for variant in {name.partition(".")[0] for name in arrays}:
        boards, movers, noise, visits = (
            arrays[f"{variant}.{part}"] for part in ("boards", "movers", "noise", "visits")
        )
        count, cells = boards.shape
        other = cpu.Search(variant, games=count, sims=sims)
        for game in range(count):
            other.put(game, boards[game], int(movers[game]))
        other.noise[:] = noise

        other.run(np.arange(count), StubNet(VARIANTS[variant][1], cells).on_host, np.full(count, sims, np.int32))

        assert (other.visits(np.arange(count)) == visits).all()


def test_the_next_roots_carry_the_network_evaluation() -> None:
    """The positions after the played moves come with the network's evaluation, or with the outcome."""
    search, roots, noise, _ = searched("hex8_3p", 96, 16)

    after = search.run(roots, noise).roots

    fresh, live = search.look(after.discs, after.mover), after.mover >= 0
    assert 0 < int(live.sum()) < 96
    assert torch.equal(after.logp[live], fresh.logp[live])
    assert torch.equal(after.vector, fresh.vector)


def test_a_finished_game_does_not_disturb_the_others() -> None:
    """The row of a finished game is empty, and its neighbours get the same results as without it."""
    search, roots, noise, _ = searched("square8_2p", 16, 16)
    expected = search.run(roots, noise).visits.clone()
    full = torch_rules.pack(search.rules, torch.ones(1, search.rules.cells, dtype=torch.int8))
    discs, mover = roots.discs.clone(), roots.mover.clone()
    discs[5], mover[5] = full[0], -1

    actual = search.run(search.look(discs, mover), noise)

    others = torch.arange(16) != 5
    assert torch.equal(actual.visits[others], expected[others])
    assert actual.roots.mover[5] == -1
    assert actual.value[5].tolist() == [1, 0]
