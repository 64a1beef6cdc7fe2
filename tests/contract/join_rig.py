"""How a test makes a node: tokens as an operator makes them, and connections by the keys that they added."""

from random import Random
from typing import Any

from contract.coordinator_rig import ADDRESS, Coordinator, DirectWire
from ringrift.cluster.keys import SCOPES
from ringrift.coordinator.node_verbs import VERBS as NODE_VERBS
from ringrift.coordinator.node_verbs import MadeToken, MakeToken
from ringrift.coordinator.verbs import Peer
from ringrift.wire.connection import Connection, JoinAnswer, join
from ringrift.wire.keys import SigningKey

ACT = {verb.name: verb for verb in NODE_VERBS}
OPERATOR = Peer(node="operator", scopes=frozenset(SCOPES))


async def token_of(coordinator: Coordinator, **terms: Any) -> str:
    """A token as an operator makes it."""
    made = await ACT["nodes.token"].run(OPERATOR, MakeToken(**terms), coordinator.parts)
    assert isinstance(made, MadeToken)
    return made.token


async def joined(
    coordinator: Coordinator, token: str, node: str = "w1", seed: int = 1, profile: str = "full"
) -> JoinAnswer:
    """The answer to a join by *token*."""
    key = SigningKey.make(node, Random(seed))
    return await join(DirectWire(coordinator.gate), ADDRESS, token, key, profile=profile)


def connect(coordinator: Coordinator, node: str = "w1", seed: int = 1, boot: str = "b1", **options: Any) -> Connection:
    """A connection by the key of :func:`joined`."""
    key = SigningKey.make(node, Random(seed))
    wire = options.pop("wire", None) or DirectWire(coordinator.gate)
    return Connection(wire, [ADDRESS], key, Random(seed), boot=boot, key_rng=Random(seed + 1), **options)
