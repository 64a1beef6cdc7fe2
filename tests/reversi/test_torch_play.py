"""Play in torch gives the games that play on the CPU gives."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from reversi.stub_net import StubNet
from ringrift_reversi import net as nets
from ringrift_reversi import play as cpu
from ringrift_reversi import records, torch_play, torch_rules
from ringrift_reversi.play_spec import Style
from ringrift_reversi.records import Games
from ringrift_reversi.topology import VARIANTS, topology

GAMES, SLOTS, SEED = 20, 16, 77
EXACT = ("moves", "offsets", "pi_idx", "result", "seed", "search")


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """These tensors are small: more threads only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def in_order(actual: list[torch_play.Finished]) -> Games:
    """All games by number."""
    order = np.argsort(np.concatenate([finished.numbers for finished in actual]))
    return records.pick(records.join([finished.games for finished in actual]), order)


def on_cpu(variant: str, style: Style) -> Games:
    """The games of the CPU by number."""
    board, players = VARIANTS[variant]
    slots = cpu.Slots(variant, slots=SLOTS, games=GAMES, seed=SEED, style=style)
    while len(slots.live):
        slots.step(StubNet(players, topology(board).cells).on_host)
    return records.join([game for _, game in sorted(slots.finished, key=lambda each: each[0])])


@pytest.mark.parametrize(
    ("variant", "style"),
    [
        ("square8_2p", Style(sims=6)),
        ("hex8_3p", Style(sims=6, fast_sims=3, full_share=0.4)),
        ("square8_4p", Style(sims=5, fast_sims=3, full_share=0.7, random_plies=0)),
        ("hex8_2p", Style(sims=4, random_plies=60)),  # some would be over within the opening
    ],
)
def test_games_are_those_of_the_cpu(variant: str, style: Style) -> None:
    """Game by game, both play the same moves with the same targets, through refilled slots and both kinds of search."""
    board, players = VARIANTS[variant]
    shape = topology(board)
    rules, stub_net = torch_rules.make_rules(shape, players), StubNet(players, shape.cells)

    slots = torch_play._Slots(rules, stub_net, np.arange(GAMES), seed=SEED, style=style, rows=SLOTS)
    games = in_order(list(slots.run()))

    expected = on_cpu(variant, style)
    for name in EXACT:
        assert (getattr(games, name) == getattr(expected, name)).all(), name
    # Sums in another order may round otherwise.
    assert np.allclose(games.pi_p.astype(np.float32), expected.pi_p.astype(np.float32), atol=1e-3)
    assert np.allclose(games.root_v.astype(np.float32), expected.root_v.astype(np.float32), atol=1e-3)
    records.unpack(records.pack(games, variant, {}), variant)


def test_a_job_continues_after_its_finished_games() -> None:
    """Finished games are not played again; the others are the same as in one run, to the last byte."""
    net, style = nets.new_net("hex8_2p", 3, channels=4, blocks=1), Style(sims=2)
    done = [0, 3, 4, 19]

    def played(done: list[int]) -> list[torch_play.Finished]:
        steps = torch_play.play(net, games=20, seed=9, style=style, slots=64, device="cpu", dtype="float32", done=done)
        return list(steps)

    rest, whole = played(done), played([])

    left = np.setdiff1d(np.arange(20), done)
    assert sorted(np.concatenate([finished.numbers for finished in rest])) == left.tolist()
    expected = records.pick(in_order(whole), left)
    assert records.pack(in_order(rest), net.variant, {}) == records.pack(expected, net.variant, {})
    assert played(list(range(20))) == []
