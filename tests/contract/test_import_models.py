"""Models that are put into a watched folder are imported once by content, verified and matched; a bad file is left."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from contract.engines import Engine
from contract.test_trust import VARIANT, log, until
from ringrift.blobs.ports import Blobs
from ringrift.daemons.import_models import _Folder
from ringrift.events import alert, evaluation, model, work
from ringrift.events.pipeline import Opened
from ringrift.harness import Member, settings_of
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import InputError
from ringrift.kernel.settings import ClusterSettings, Gate, Policy, Settings
from ringrift.kernel.transfer_settings import Replicas
from ringrift.node import Node
from ringrift.pipeline.inbox import INBOX, variant_of
from ringrift.pipeline.line import LINES, Line, Stage
from ringrift.sim.blobs import MemoryBlobs
from ringrift.sim.launch import SimLaunch, WorkerBehaviour
from ringrift.store.ports import Store
from ringrift.workload import fake, kit

SETTINGS = Settings(
    cluster=ClusterSettings(beat_seconds=0.2, elect_seconds=0.1, role_seconds=1.0),
    policy=Policy(
        variants=(VARIANT,),
        games_per_export=1_000_000,
        gate=Gate(elo_1=200.0, blocks_min=4, blocks_max=64),
        review_promotions=0,
    ),
    replicas=Replicas(copies_min=1),
)


def sealed(strength: float) -> bytes:
    """A model of the fake workload."""
    body = {"generation": 3, "parent": None, "strength": strength}
    return kit.seal("model", VARIANT, body, form=fake.FORM)


@asynccontextmanager
async def watching(store: Store, folder: Path, blobs: MemoryBlobs) -> AsyncIterator[Node]:
    """A node that plays one line and watches *folder*."""

    async def reach(name: str) -> Blobs:
        return blobs

    own = settings_of(SETTINGS, Member(id="n1")).overlaid(
        {"imports": {"folder": str(folder), "every_seconds": 0.05}, "work.retry.tries": 1}
    )
    launch = SimLaunch(blobs, Random(0), WorkerBehaviour(seconds_max=0.1))
    async with Node.open(own, SystemClock(), Random(0), store=store, blobs=blobs, reach=reach, launch=launch) as node:
        await node.router.publish(Opened(variant=VARIANT, workload="fake"), id="opened")
        yield node


async def line_of(store: Store) -> Line | None:
    """The line of the variant."""
    async with store.read() as view:
        return await LINES.get(view, VARIANT)


async def collecting(store: Store) -> None:
    """Wait until the line has a champion and collects games."""

    async def has_champion() -> bool:
        line = await line_of(store)
        return line is not None and line.stage is Stage.COLLECTING

    await until(store, has_champion)


async def states(store: Store) -> dict[str, str]:
    """The state of every file, by its name."""
    async with store.read() as view:
        return {entry.name: entry.state for entry in await INBOX.all(view)}


async def refusals(store: Store) -> list[str]:
    """The files that were reported as no models."""
    return [event.subject for event in await log(store, alert.Raised) if event.kind == "import"]


async def imports_cleared(store: Store) -> list[str]:
    """The files whose report was cleared."""
    return [event.subject for event in await log(store, alert.Cleared) if event.kind == "import"]


def test_a_model_file_is_imported_verified_and_matched_once(engine: Engine, tmp_path: Path) -> None:
    """It becomes champion by its match alone; the same bytes again, under another name or after a restart, change
    nothing."""

    async def story(store: Store) -> None:
        folder, blobs = tmp_path / "inbox", MemoryBlobs("n1")
        (folder / VARIANT).mkdir(parents=True)
        async with watching(store, folder, blobs):
            await collecting(store)
            (folder / VARIANT / "strong.bin").write_bytes(sealed(900.0))

            async def is_matched() -> bool:
                return any(event.promoted for event in await log(store, evaluation.Finished))

            await until(store, is_matched)
            [imported] = await log(store, model.Imported)
            assert imported.model in {event.model for event in await log(store, model.Verified)}
            [finished] = await log(store, evaluation.Finished)
            assert finished.candidate == imported.model
            assert await states(store) == {f"{VARIANT}/strong.bin": "nominated"}

        async with watching(store, folder, blobs):
            (folder / f"again-{VARIANT}.bin").write_bytes(sealed(900.0))
            (folder / VARIANT / "bad.bin").write_bytes(b"no model")

            async def is_refused() -> bool:
                return bool(await refusals(store))

            await until(store, is_refused)
            assert len(await log(store, model.Imported)) == 1
            assert set(await states(store)) == {f"{VARIANT}/strong.bin", f"{VARIANT}/bad.bin"}

    engine.run(story)


def test_a_bad_file_is_reported_once_and_left_alone(engine: Engine, tmp_path: Path) -> None:
    """Garbage, an empty file, a name without a variant: one alert each, also after a restart; files stay, and
    one that a person removes clears its alert."""
    bad = {f"{VARIANT}.bin": b"garbage", f"empty-{VARIANT}.bin": b"", "stranger.bin": sealed(900.0)}

    async def story(store: Store) -> None:
        folder, blobs = tmp_path / "inbox", MemoryBlobs("n1")
        folder.mkdir()
        for name, content in bad.items():
            (folder / name).write_bytes(content)

        async def all_refused() -> bool:
            return len(await refusals(store)) >= len(bad)

        async with watching(store, folder, blobs):
            await collecting(store)
            await until(store, all_refused)
        async with watching(store, folder, blobs):
            await collecting(store)
            good = f"good-{VARIANT}.bin"
            (folder / good).write_bytes(sealed(-900.0))

            async def is_nominated() -> bool:
                return (await states(store)).get(good) == "nominated"

            await until(store, is_nominated)

            (folder / "stranger.bin").unlink()

            async def is_cleared() -> bool:
                return bool(await imports_cleared(store))

            await until(store, is_cleared)

        assert await imports_cleared(store) == ["n1/stranger.bin"]
        assert sorted(await refusals(store)) == sorted(f"n1/{name}" for name in bad)
        del bad["stranger.bin"]
        assert {name: (folder / name).read_bytes() for name in bad} == bad
        assert len([event for event in await log(store, work.Buried) if event.kind == "import"]) == 1

    engine.run(story)


def test_a_file_is_read_once_it_has_stopped_growing() -> None:
    """At its second look without a change, and again only after one."""
    folder = _Folder()
    looks = [(1, 1), (2, 2), (2, 2), (2, 2), (3, 3), (3, 3)]

    assert [folder.settled({"a": stamp}) for stamp in looks] == [[], [], ["a"], [], [], ["a"]]


@pytest.mark.parametrize(("name", "variant"), [("hex8_2p/a.bin", "hex8_2p"), ("best-square8_2p.bin", "square8_2p")])
def test_a_file_names_its_variant(name: str, variant: str) -> None:
    """By its folder or by its own name; a name that fits none or two is refused with what to do."""
    variants = ("hex8_2p", "square8_2p")
    assert variant_of(name, variants) == variant

    for stranger in ("a.bin", "hex8_2p-square8_2p.bin"):
        with pytest.raises(InputError, match="put it into a folder named after one"):
            variant_of(stranger, variants)
