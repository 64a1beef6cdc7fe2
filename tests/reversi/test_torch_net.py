"""The evaluator of the torch search equals the network."""

import pytest
import torch

from ringrift_reversi import net as nets
from ringrift_reversi import torch_net
from ringrift_reversi.topology import VARIANTS


@pytest.mark.parametrize("variant", ["square8_2p", "square8_4p", "hex8_3p", "square19_2p", "hexagonal_4p"])
def test_the_evaluator_equals_the_network(variant: str) -> None:
    """Logits and values are those of the network itself, but for rounding, for every seat to move."""
    chance = torch.Generator().manual_seed(1)
    net = nets.new_net(variant, 1, channels=8, blocks=2)
    torch.nn.init.normal_(net.value.weight, generator=chance)
    players = VARIANTS[variant][1]
    boards = torch.randint(0, players + 1, (12, net.cells), dtype=torch.int8, generator=chance)
    to_move = torch.arange(12, dtype=torch.int8) % players

    logits, values = torch_net.evaluator(net, device="cpu", dtype=torch.float32)(boards, to_move)

    with torch.no_grad():
        expected, shares = net.evaluate(boards, to_move)
    assert torch.allclose(logits, expected, atol=1e-5)
    assert torch.allclose(values, shares, atol=1e-5)
