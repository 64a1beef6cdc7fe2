"""Tokens, keys and rotation: how a machine becomes a node, stays the same one, and is turned away."""

from pathlib import Path
from random import Random

import msgspec
import pytest

from contract.coordinator_rig import ADDRESS, Coordinator, DirectWire, tell
from contract.join_rig import ACT, OPERATOR, connect, joined, token_of
from ringrift.cluster.keys import KEYS, WORKER
from ringrift.cluster.placement import load_offer
from ringrift.cluster.roster import NODES, NodeRecord
from ringrift.coordinator.gate import Gate
from ringrift.coordinator.node_verbs import ChangeNode, MadeToken, MakeToken
from ringrift.events.node import KeyChanged, Left
from ringrift.kernel.errors import InputError
from ringrift.kernel.value import changed
from ringrift.kernel.wire_errors import KeyRefused, WireTooOld
from ringrift.wire.connection import ChallengeAnswer, JoinAnswer, Leave, Nothing, join
from ringrift.wire.keys import SigningKey, make_token
from ringrift.wire.ports import Reply, Request
from unit.kernel.manual_clock import ManualClock


def test_a_machine_joins_by_a_token_and_calls_by_its_key(tmp_path: Path) -> None:
    """The token gives scopes and labels, and the log says who came by which."""

    async def story(coordinator: Coordinator) -> None:
        token = await token_of(coordinator, labels={"zone": "attic"})
        answer = await joined(coordinator, token)
        assert (answer.coordinator, answer.scopes) == ("c", WORKER)
        await connect(coordinator).call("leader", Nothing(), Nothing)
        async with coordinator.store.begin() as tx:
            await NODES.put(tx, [NodeRecord(id="w1", profile="full", address="", beat=1)])
            offer = await load_offer(tx, "w1")
        assert offer is not None
        assert offer.labels == {"zone": "attic"}
        [envelope] = await coordinator.log(KeyChanged.name())
        assert msgspec.json.decode(envelope.body)["change"] == "added"

    tell(tmp_path, story)


def test_a_token_is_stored_as_a_digest_alone(tmp_path: Path) -> None:
    """Nothing in the folder of the coordinator contains its secret, and no text of the answer shows it."""

    secrets: list[str] = []

    async def story(coordinator: Coordinator) -> None:
        made = await ACT["nodes.token"].run(OPERATOR, MakeToken(), coordinator.parts)
        assert isinstance(made, MadeToken)
        secret = made.token.split("-")[2]
        assert secret not in repr(made)
        secrets.append(secret)

    tell(tmp_path, story)
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert files
    assert not [file for file in files if secrets[0].encode() in file.read_bytes()]


@pytest.mark.parametrize(("profile", "scopes"), [("full", WORKER), ("selfplay", ("play", "evaluate")), ("", ())])
def test_a_profile_gets_no_more_work_than_it_does(profile: str, scopes: tuple[str, ...], tmp_path: Path) -> None:
    """The scopes of a key are those of its token, without the work that its profile does not do."""

    async def story(coordinator: Coordinator) -> None:
        assert (await joined(coordinator, await token_of(coordinator), profile=profile)).scopes == scopes
        other = await token_of(coordinator, scopes=("read", "administer"))
        assert (await joined(coordinator, other, "w2", profile=profile)).scopes == ("read", "administer")

    tell(tmp_path, story)


def test_a_token_adds_one_key(tmp_path: Path) -> None:
    """The same key may ask again, whose answer was lost; another one is refused."""

    async def story(coordinator: Coordinator) -> None:
        token = await token_of(coordinator)
        first = await joined(coordinator, token)
        assert await joined(coordinator, token) == first
        for node, seed in (("w2", 1), ("w1", 2)):
            with pytest.raises(KeyRefused, match="used before"):
                await joined(coordinator, token, node, seed)
        async with coordinator.store.read() as view:
            assert list(await KEYS.scan(view)) == ["w1"]
        assert len(await coordinator.log(KeyChanged.name())) == 1

    tell(tmp_path, story)


def test_a_token_that_is_wrong_or_too_old_adds_none(tmp_path: Path) -> None:
    """An unknown id, another secret, one that has expired, one for another node."""

    async def story(coordinator: Coordinator) -> None:
        clock = coordinator.parts.clock
        assert isinstance(clock, ManualClock)
        token = await token_of(coordinator)
        stolen_id = "-".join([*token.split("-")[:2], "0" * 40])
        for bad in (make_token(Random(5)), stolen_id, await token_of(coordinator, node="w7")):
            with pytest.raises(KeyRefused):
                await joined(coordinator, bad)
        clock.seconds += 901
        with pytest.raises(KeyRefused, match="expired"):
            await joined(coordinator, token)
        async with coordinator.store.read() as view:
            assert not await KEYS.scan(view)

    tell(tmp_path, story, ManualClock())


def test_old_tokens_are_forgotten(tmp_path: Path) -> None:
    """A day after its end a token is gone from the store."""

    async def story(coordinator: Coordinator) -> None:
        clock = coordinator.parts.clock
        assert isinstance(clock, ManualClock)
        await token_of(coordinator)
        clock.seconds += 2 * 86_400
        await token_of(coordinator)
        async with coordinator.store.read() as view:
            assert len(await view.scan("join_token", "", 10)) == 1

    tell(tmp_path, story, ManualClock())


def test_a_name_that_is_taken_is_not_given_again(tmp_path: Path) -> None:
    """Not that of the coordinator, of a node on the store or of another worker; a token for it replaces its key."""

    async def story(coordinator: Coordinator) -> None:
        async with coordinator.store.begin() as tx:
            await NODES.put(tx, [NodeRecord(id="embedded", profile="full", address="/x", beat=1)])
        await joined(coordinator, await token_of(coordinator))
        for node in ("c", "embedded", "w1"):
            with pytest.raises(InputError, match="already"):
                await joined(coordinator, await token_of(coordinator), node, seed=2)
        old = connect(coordinator)
        await old.call("leader", Nothing(), Nothing)
        await joined(coordinator, await token_of(coordinator, node="w1"), seed=2)
        with pytest.raises(KeyRefused, match="wrong"):
            await old.call("leader", Nothing(), Nothing)
        await connect(coordinator, seed=2).call("leader", Nothing(), Nothing)

    tell(tmp_path, story)


def test_a_coordinator_that_does_not_know_the_token_is_not_believed(tmp_path: Path) -> None:
    """Who answers in its place cannot name an authority of its own."""

    class Forging(DirectWire):
        async def request(self, address: str, request: Request, seconds_max: float) -> Reply:
            reply = await super().request(address, request, seconds_max)
            answer = msgspec.msgpack.decode(reply.body, type=JoinAnswer)
            return Reply(body=msgspec.msgpack.encode(changed(answer, ca="a forged authority")))

    async def story(coordinator: Coordinator) -> None:
        token = await token_of(coordinator)
        with pytest.raises(KeyRefused, match="does not know"):
            await join(Forging(coordinator.gate), ADDRESS, token, SigningKey.make("w1", Random(1)))

    tell(tmp_path, story)


def test_a_key_may_have_an_end(tmp_path: Path) -> None:
    """A key with a time limit is refused after it, in an open session too."""

    async def story(coordinator: Coordinator) -> None:
        clock = coordinator.parts.clock
        assert isinstance(clock, ManualClock)
        await joined(coordinator, await token_of(coordinator, key_seconds=60.0))
        connection = connect(coordinator)
        await connection.call("leader", Nothing(), Nothing)
        clock.seconds += 61
        with pytest.raises(KeyRefused, match="expired"):
            await connection.call("leader", Nothing(), Nothing)

    tell(tmp_path, story, ManualClock())


def test_to_leave_is_not_to_be_lost(tmp_path: Path) -> None:
    """The node is recorded as gone and its session ends; with *remove* its key is given up too."""

    async def story(coordinator: Coordinator) -> None:
        node = await coordinator.node("w1")
        await node.call("leave", Leave(), Nothing)
        async with coordinator.store.read() as view:
            record = await NODES.get(view, "w1")
        assert record is not None
        assert record.gone
        assert len(await coordinator.log(Left.name())) == 1
        await node.beat(2)
        await node.call("leave", Leave(remove=True), Nothing)
        with pytest.raises(KeyRefused, match="revoked"):
            await node.beat(3)

    tell(tmp_path, story)


def test_a_removed_node_is_refused_and_may_be_joined_again(tmp_path: Path) -> None:
    """Its key is of no use from the next look on; a new token makes it a node again."""

    async def story(coordinator: Coordinator) -> None:
        await joined(coordinator, await token_of(coordinator))
        connection = connect(coordinator)
        await connection.call("leader", Nothing(), Nothing)
        await ACT["nodes.change"].run(OPERATOR, ChangeNode(node="w1", action="remove"), coordinator.parts)
        coordinator.parts.keys.forget()
        with pytest.raises(KeyRefused, match="revoked"):
            await connection.call("leader", Nothing(), Nothing)
        await joined(coordinator, await token_of(coordinator), seed=2)
        await connect(coordinator, seed=2).call("leader", Nothing(), Nothing)

    tell(tmp_path, story)


def test_a_node_on_the_store_itself_is_not_removed_while_it_runs(tmp_path: Path) -> None:
    """It has no key to revoke: its process is to be stopped."""

    async def story(coordinator: Coordinator) -> None:
        async with coordinator.store.begin() as tx:
            await NODES.put(tx, [NodeRecord(id="embedded", profile="full", address="/x", beat=1)])
        with pytest.raises(InputError, match="stop its process"):
            await ACT["nodes.change"].run(OPERATOR, ChangeNode(node="embedded", action="remove"), coordinator.parts)

    tell(tmp_path, story)


def test_a_side_that_is_too_old_is_told_to_upgrade(tmp_path: Path) -> None:
    """Either side refuses the other with the line that upgrades it."""

    class Old(DirectWire):
        """Speaks for a side of version 0."""

        def __init__(self, gate: Gate, *, client: bool) -> None:
            super().__init__(gate)
            self.is_client = client

        async def request(self, address: str, request: Request, seconds_max: float) -> Reply:
            if self.is_client:
                return await super().request(address, _as_old(request), seconds_max)
            return Reply(body=msgspec.msgpack.encode(ChallengeAnswer(nonce=b"", version=0)))

    async def story(coordinator: Coordinator) -> None:
        await joined(coordinator, await token_of(coordinator))
        for is_client, text in ((True, "upgrade this machine"), (False, "upgrade the coordinator")):
            connection = connect(coordinator, wire=Old(coordinator.gate, client=is_client))
            with pytest.raises(WireTooOld, match=text):
                await connection.call("leader", Nothing(), Nothing)
        key, wire = SigningKey.make("w2", Random(2)), Old(coordinator.gate, client=True)
        with pytest.raises(WireTooOld, match="upgrade this machine"):
            await join(wire, ADDRESS, await token_of(coordinator), key)

    tell(tmp_path, story)


def _as_old(request: Request) -> Request:
    body = msgspec.msgpack.decode(request.body)
    return changed(request, body=msgspec.msgpack.encode(body | {"version": 0}))


def test_programs_share_a_key_and_nodes_do_not(tmp_path: Path) -> None:
    """Two programs with one key are answered side by side, and nobody is accused."""

    async def story(coordinator: Coordinator) -> None:
        await joined(coordinator, await token_of(coordinator, scopes=("read",)), "laptop", profile="")
        programs = [connect(coordinator, "laptop", boot=boot) for boot in ("b1", "b2")]
        for _ in range(3):
            for program in programs:
                await program.call("leader", Nothing(), Nothing)
        assert not await coordinator.log("node.key_shared")
        assert len({program._session for program in programs}) == 2

    tell(tmp_path, story)
