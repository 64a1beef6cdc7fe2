"""The canonical links lead to a whole champion at every moment, whatever happens to files and to linking nodes."""

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from contract.engines import Engine
from contract.packed import PackedBlobs
from contract.subscribers import routed
from ringrift.blobs.folder import FolderBlobs
from ringrift.cluster import alerts
from ringrift.daemons.link_champions import (
    _LOOK_SECONDS,
    _models_folder,
    _names,
    _report_foreign,
    _update_links,
    link_champions,
)
from ringrift.events import alert, catalog, model
from ringrift.pipeline.line import Line, Stage
from ringrift.pipeline.records import save_line
from ringrift.sim.blobs import MemoryBlobs
from ringrift.store.ports import Store
from wait import wait_until

V = "hex8_2p"


def sha(data: bytes) -> str:
    """The name of a blob."""
    return hashlib.sha256(data).hexdigest()


async def crown(store: Store, champion: bytes, variant: str = V) -> str:
    """Make *champion* the champion of *variant*."""
    line = Line(
        variant=variant, workload="fake", players=2, stage=Stage.COLLECTING, champion=sha(champion), generation=1
    )
    async with store.begin() as tx:
        await save_line(tx, line)
    return sha(champion)


def read(home: Path, variant: str = V) -> list[bytes | None]:
    """The content behind the links of *variant*."""
    links = [home / "models" / name for name in _names(variant)]
    return [link.read_bytes() if link.exists() else None for link in links]


def test_both_names_lead_to_the_champion(on_file: Engine, tmp_path: Path) -> None:
    """Links appear with the first champion, move with the next, and go back with a rollback."""
    blobs = FolderBlobs(tmp_path / "blobs")

    async def story(store: Store) -> list[list[bytes | None]]:
        await blobs.put([b"first", b"second"])
        contents = []
        for champion in (b"first", b"second", b"first"):
            await crown(store, champion)
            assert await _update_links(store, blobs, "n") == [V]
            contents.append(read(tmp_path))
        assert await _update_links(store, blobs, "n") == [], "a correct link is not changed"
        return contents

    assert on_file.run(story) == [[b"first"] * 2, [b"second"] * 2, [b"first"] * 2]
    assert all((tmp_path / "models" / name).is_symlink() for name in _names(V))
    assert sorted(file.name for file in (tmp_path / "models").iterdir()) == sorted(_names(V))


def test_a_champion_that_arrived_in_a_pack_is_linked(on_file: Engine, tmp_path: Path) -> None:
    """A link needs a file of its own: the champion gets one."""
    blobs = PackedBlobs(tmp_path / "blobs")

    async def story(store: Store) -> list[str]:
        await blobs.put([b"first"])
        await crown(store, b"first")
        return await _update_links(store, blobs, "n")

    assert on_file.run(story) == [V]
    assert read(tmp_path) == [b"first"] * 2


def test_a_champion_that_is_not_here_is_not_linked(on_file: Engine, tmp_path: Path) -> None:
    """The previous link stays until the file has arrived."""
    blobs = FolderBlobs(tmp_path / "blobs")

    async def story(store: Store) -> list[list[bytes | None]]:
        await blobs.put([b"first"])
        await crown(store, b"first")
        await _update_links(store, blobs, "n")
        await crown(store, b"second")
        assert await _update_links(store, blobs, "n") == []
        contents = [read(tmp_path)]
        await blobs.put([b"second"])
        await _update_links(store, blobs, "n")
        return [*contents, read(tmp_path)]

    assert on_file.run(story) == [[b"first"] * 2, [b"second"] * 2]


def test_a_damaged_champion_is_not_linked(on_file: Engine, tmp_path: Path) -> None:
    """A file whose content does not match its name is not linked; it is left for the sweep."""
    blobs = FolderBlobs(tmp_path / "blobs")

    async def story(store: Store) -> list[bytes | None]:
        await blobs.put([b"first", b"second"])
        await crown(store, b"first")
        await _update_links(store, blobs, "n")
        blobs.folder.path(await crown(store, b"second")).write_bytes(b"seconD")
        assert await _update_links(store, blobs, "n") == []
        return read(tmp_path)

    assert on_file.run(story) == [b"first"] * 2
    assert blobs.folder.path(sha(b"second")).exists()


def test_each_variant_has_links_of_its_own(on_file: Engine, tmp_path: Path) -> None:
    """Promoting one variant never changes the links of another."""
    blobs = FolderBlobs(tmp_path / "blobs")

    async def story(store: Store) -> tuple[list[int], list[int]]:
        await blobs.put([b"first", b"second", b"other"])
        await crown(store, b"first")
        await crown(store, b"other", "hex8_3p")
        await _update_links(store, blobs, "n")
        links = [tmp_path / "models" / name for name in _names("hex8_3p")]
        before = [link.lstat().st_ino for link in links]
        await crown(store, b"second")
        assert await _update_links(store, blobs, "n") == [V]
        return before, [link.lstat().st_ino for link in links]

    before, after = on_file.run(story)

    assert before == after
    assert read(tmp_path, "hex8_3p") == [b"other"] * 2


def test_nodes_on_one_machine_share_the_links(on_file: Engine, tmp_path: Path) -> None:
    """A node that has the file moves the links; the others leave them, and repair them if that file disappears."""
    here = {node: FolderBlobs(tmp_path / "blobs" / node) for node in ("a", "a-2")}

    async def story(store: Store) -> None:
        for blobs in here.values():
            await blobs.put([b"first"])
        champion = await crown(store, b"first")
        assert await _update_links(store, here["a"], "a") == [V]
        assert await _update_links(store, here["a-2"], "a-2") == []
        here["a"].folder.path(champion).unlink()
        assert await _update_links(store, here["a"], "a") == []
        assert await _update_links(store, here["a-2"], "a-2") == [V]

    on_file.run(story)

    assert read(tmp_path) == [b"first"] * 2
    assert (
        _models_folder(tmp_path / "blobs" / "a", "a") == _models_folder(tmp_path / "blobs", "n") == tmp_path / "models"
    )


def test_remains_of_a_killed_process_do_no_harm(on_file: Engine, tmp_path: Path) -> None:
    """A temporary link that was never renamed is removed at the next update."""
    blobs = FolderBlobs(tmp_path / "blobs")
    (tmp_path / "models").mkdir()
    os.symlink("nowhere", tmp_path / "models" / f".canonical_{V}.n")

    async def story(store: Store) -> None:
        await blobs.put([b"first"])
        await crown(store, b"first")
        await _update_links(store, blobs, "n")

    on_file.run(story)

    assert read(tmp_path) == [b"first"] * 2
    assert sorted(file.name for file in (tmp_path / "models").iterdir()) == sorted(_names(V))


@pytest.mark.parametrize("form", ["file", "link", "folder"])
def test_what_is_not_ours_under_the_name_of_a_link_stays(on_file: Engine, tmp_path: Path, form: str) -> None:
    """A file, a folder or a link to elsewhere is left as it is, again and again, and the other name is linked."""
    blobs, place = FolderBlobs(tmp_path / "blobs"), tmp_path / "models" / f"canonical_{V}.pth"
    place.parent.mkdir()
    (tmp_path / "mine.pth").write_bytes(b"mine")
    if form == "link":
        place.symlink_to(tmp_path / "mine.pth")
    elif form == "file":
        place.write_bytes(b"mine")
    else:
        place.mkdir()

    async def story(store: Store) -> None:
        await blobs.put([b"first", b"second"])
        for champion in (b"first", b"second"):
            await crown(store, champion)
            await _update_links(store, blobs, "n")

    on_file.run(story)

    assert place.is_dir() if form == "folder" else place.read_bytes() == b"mine"
    assert place.is_symlink() == (form == "link")
    assert (tmp_path / "models" / f"canonical_{V}").read_bytes() == b"second"
    assert len(list(place.parent.iterdir())) == 2, "nothing is made beside it"


def test_what_is_not_ours_is_reported_until_it_is_moved(on_file: Engine, tmp_path: Path) -> None:
    """One alert names the file and what to do; it is cleared, and the link made, when the file is gone."""
    blobs, place = FolderBlobs(tmp_path / "blobs"), tmp_path / "models" / f"canonical_{V}.pth"
    place.parent.mkdir()
    place.write_bytes(b"mine")

    async def story(store: Store) -> list[list[Any]]:
        await blobs.put([b"first"])
        await crown(store, b"first")
        events = []
        async with routed(store) as router:
            for _ in range(2):
                await _report_foreign(store, router, blobs, "n")
                async with store.begin() as tx:
                    for envelope in await tx.read(0, 100, [alert.Raised.name()]):
                        await alerts.apply(tx, alerts.judge(catalog.decode(envelope.name, envelope.body)), 0.0)
            place.unlink()
            await _update_links(store, blobs, "n")
            await _report_foreign(store, router, blobs, "n")
        async with store.read() as view:
            events = await view.read(0, 100, [alert.Raised.name(), alert.Cleared.name()])
        return [catalog.decode(envelope.name, envelope.body) for envelope in events]

    raised, cleared = on_file.run(story)

    assert (raised.subject, cleared.subject) == (f"n/{place.name}",) * 2
    assert str(place) in raised.detail
    assert "move it" in raised.detail
    assert read(tmp_path) == [b"first"] * 2


def test_without_files_nothing_is_linked(engine: Engine, tmp_path: Path) -> None:
    """A simulated node has blobs in memory: there is nothing to link to, and nothing is written."""

    async def story(store: Store) -> list[str]:
        await crown(store, b"first")
        return await _update_links(store, MemoryBlobs(), "n")

    assert engine.run(story) == []
    assert not (tmp_path / "models").exists()


def test_a_reader_never_sees_a_broken_link(on_file: Engine, tmp_path: Path) -> None:
    """While the pointer moves to and fro hundreds of times, opening the link yields one of the two models, whole."""
    blobs = FolderBlobs(tmp_path / "blobs")
    both = [b"first" * 10_000, b"second" * 10_000]
    contents: set[bytes] = set()

    async def story(store: Store) -> None:
        await blobs.put(both)
        await crown(store, both[0])
        await _update_links(store, blobs, "n")
        over = asyncio.Event()

        def watch() -> None:
            while not over.is_set():
                for name in _names(V):
                    contents.add((tmp_path / "models" / name).read_bytes())

        watching = asyncio.get_running_loop().run_in_executor(None, watch)
        try:
            for turn in range(150):
                await crown(store, both[turn % 2])
                await _update_links(store, blobs, "n")
        finally:
            over.set()
            await watching

    on_file.run(story)

    assert contents == set(both)


@asynccontextmanager
async def running(daemon: Callable[..., Awaitable[Any]], **parts: Any) -> Any:
    """A daemon that serves while the body runs."""
    task = asyncio.ensure_future(daemon(**parts))
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.mark.parametrize(
    "event",
    [
        model.Promoted(variant=V, model="m", generation=2),
        model.RolledBack(variant=V, model="m", to="n", generation=0, reason="r"),
        model.Distributed(variant=V, model="m", nodes=("n",)),
    ],
    ids=["promoted", "rolled back", "distributed"],
)
def test_links_are_updated_at_start_and_when_a_pointer_moves(on_file: Engine, tmp_path: Path, event: Any) -> None:
    """The update comes long before the next poll, and each one reports progress."""
    blobs, beats = FolderBlobs(tmp_path / "blobs"), list[int]()

    async def story(store: Store) -> None:
        await blobs.put([b"first", b"second"])
        await crown(store, b"first")
        async with routed(store) as bus:
            parts = {"store": store, "router": bus, "blobs": blobs, "node_id": "n", "alive": lambda: beats.append(1)}
            async with running(link_champions, **parts):
                await wait_until(lambda: len(beats) == 1)
                assert read(tmp_path) == [b"first"] * 2
                await crown(store, b"second")
                async with asyncio.timeout(_LOOK_SECONDS / 2):
                    await bus.publish(event)
                    await wait_until(lambda: len(beats) == 2)
            assert not bus.has_subscribers(type(event))

    on_file.run(story)

    assert read(tmp_path) == [b"second"] * 2
