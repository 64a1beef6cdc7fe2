"""The command that lists nodes, changes them and makes tokens."""

from pathlib import Path
from typing import Any

import pytest

from ringrift.cluster.keys import StoredKey, store_keys
from ringrift.cluster.roster import NODES, NodeRecord
from ringrift.events.node import KeyChanged
from ringrift.events.work import RunStateChanged
from ringrift.kernel.errors import InputError, SettingsError, UnknownName
from ringrift.kernel.value import changed
from ringrift.wire.keys import split_token
from ringrift.work.run_states import load_run_states
from unit.cli.command_output import ask
from unit.work.world import World, play


async def _fill(world: World, **changes: Any) -> None:
    """A worker with a key, a program and a node on the store itself."""
    key = StoredKey(node="w1", public=b"k" * 32, scopes=("play",), profile="selfplay")
    async with world.store.begin() as tx:
        await NODES.put(tx, [NodeRecord(id="here", profile="full", address="/x", beat=1, cores=2)])
        await NODES.put(tx, [NodeRecord(id="w1", profile="selfplay", address="", beat=1, labels={"gpu": "no"})])
        await store_keys(tx, [changed(key, **changes), StoredKey(node="laptop", public=b"l" * 32, scopes=("read",))])


def test_nodes_are_listed_with_state_and_key(tmp_path: Path) -> None:
    """A worker with what it may do, a node on the store without a key, and a program."""

    async def story(world: World) -> None:
        assert "ringrift nodes token" in (await ask(world.store, "nodes")).text
        await _fill(world)
        output = await ask(world.store, "nodes", "list")
        rows = {row.id: row for row in output.value}
        assert {id: (row.state, row.profile, row.scopes) for id, row in rows.items()} == {
            "here": ("alive", "full", ()),
            "laptop": ("has not reported", "", ("read",)),
            "w1": ("alive", "selfplay", ("play",)),
        }
        line = next(line for line in output.text.splitlines() if line.startswith("w1"))
        assert "play" in line
        assert "gpu=no" in line

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"revoked": "lost"}, "revoked: lost"),
        ({"expires": 5.0}, "expired"),
        ({"shared": "a on m1, b on m2"}, "two processes"),
        ({"rotate": True}, "to be replaced"),
    ],
)
def test_what_is_wrong_with_a_key_is_shown(change: dict[str, Any], text: str, tmp_path: Path) -> None:
    """An operator sees why a node is refused or gets no work."""

    async def story(world: World) -> None:
        await _fill(world, **change)
        assert text in (await ask(world.store, "nodes", "show", "w1")).text
        listed = "w1" in [row.id for row in (await ask(world.store, "nodes")).value]
        assert listed == ("revoked" not in change)
        assert text in (await ask(world.store, "nodes", "--all")).text

    play(tmp_path, story)


def test_cordon_drain_and_uncordon_are_run_states_of_the_node(tmp_path: Path) -> None:
    """Claims obey them as ever; who set them, and why, is in the log."""

    async def story(world: World) -> None:
        await _fill(world)
        for verb, state in (("cordon", "paused"), ("drain", "draining"), ("uncordon", "running")):
            await ask(world.store, "nodes", verb, "w1", "--reason", "new disk")
            async with world.store.read() as view:
                run = (await load_run_states(view)).current("node:w1", world.clock.now())
            assert run.state == state
            row = (await ask(world.store, "nodes", "show", "w1")).value
            assert row.run_state == state
        assert [event.reason for event in await world.events(RunStateChanged)] == ["new disk"] * 3  # type: ignore[union-attr]  # of these events

    play(tmp_path, story)


def test_labels_are_set_and_deleted(tmp_path: Path) -> None:
    """Those of an operator stand beside those of the node and win."""

    async def story(world: World) -> None:
        await _fill(world)
        await ask(world.store, "nodes", "label", "w1", "zone=attic", "gpu=yes")
        output = await ask(world.store, "nodes", "label", "w1", "zone=")
        assert output.value["labels"] == {"gpu": "yes"}

    play(tmp_path, story)


def test_a_removed_node_is_revoked_and_counts_as_left(tmp_path: Path) -> None:
    """Its key is refused from now on, its record stays."""

    async def story(world: World) -> None:
        await _fill(world)
        await ask(world.store, "nodes", "remove", "w1")
        await ask(world.store, "nodes", "remove", "w1")
        row = (await ask(world.store, "nodes", "show", "w1")).value
        assert (row.state, row.key.partition(":")[0]) == ("left", "revoked")
        assert len(await world.events(KeyChanged)) == 1

    play(tmp_path, story)


def test_a_token_is_printed_alone_or_written_for_its_owner(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is piped is the token; a file of it is new and nobody else can read it."""

    async def story(world: World) -> None:
        output = await ask(world.store, "nodes", "token", "--label", "zone=attic")
        split_token(output.text)
        assert output.value["scopes"] == ("play", "train", "evaluate")
        assert output.text not in capsys.readouterr().err
        file = tmp_path / "token"
        output = await ask(world.store, "nodes", "token", "--scope", "read", "--out", str(file), "--for", "1h")
        text = file.read_text()
        split_token(text)
        assert file.stat().st_mode & 0o777 == 0o600
        assert text.strip() not in f"{output.text} {output.value}"
        with pytest.raises(SettingsError, match="new file"):
            await ask(world.store, "nodes", "token", "--out", str(file))

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("show", "nowhere"), UnknownName),
        (("cordon", "nowhere"), UnknownName),
        (("label", "nowhere", "a=b"), UnknownName),
        (("rotate", "here"), UnknownName),
        (("remove", "here"), InputError),
        (("cordon",), InputError),
        (("label", "w1"), InputError),
        (("label", "w1", "zone"), SettingsError),
        (("token", "--for", "soon"), SettingsError),
        (("token", "--for", "30d"), SettingsError),
        (("token", "--label", "zone"), SettingsError),
    ],
)
def test_wrong_words_are_named(words: tuple[str, ...], error: type[Exception], tmp_path: Path) -> None:
    """Nothing is changed by them."""

    async def story(world: World) -> None:
        await _fill(world)
        with pytest.raises(error):
            await ask(world.store, "nodes", *words)

    play(tmp_path, story)
