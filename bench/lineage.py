"""Lineage: ten million games, and how long it takes to say what a model rests on and what a node's games reached."""

import asyncio
import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

import msgspec

from bench import parts
from bench.measure import Contest, Line, Metrics, Side
from ringrift.pipeline import lineage
from ringrift.pipeline.line import Line as LineOf
from ringrift.pipeline.line import Stage
from ringrift.pipeline.models import resolve
from ringrift.pipeline.records import save_line
from ringrift.store.ports import Origin, Store

BATCHES, GAMES_PER_BATCH, SAMPLES = 200_000, 50, 2_000
WINDOW_MIN, WINDOW_MAX = 100, 256
NODES = tuple(f"node-{number:02}" for number in range(20))
ALONE = "alone"
"""A node that played all games of a second variant: as much as all the others together."""
BUILD_SECONDS_MAX, ANSWER_MS_MAX = 60.0, 1000.0
ROWS_AT_ONCE = 100_000
STEP = BATCHES // SAMPLES
"""Fresh batches for each training: every window overlaps with the next ones."""


class World:
    """The rows of one variant, made up in the order in which a run would write them."""

    def __init__(self, variant: str, nodes: Sequence[str], samples: int, rng: Random) -> None:
        self.variant, self._nodes, self._samples, self._rng = variant, nodes, samples, rng
        self.batches: list[str] = []
        self.champion = self._name("model", 0)
        self.edges = 0

    def _name(self, kind: str, number: int) -> str:
        return hashlib.sha256(f"{self.variant}:{kind}:{number}".encode()).hexdigest()

    def rows(self) -> Iterator[tuple[list[Origin], list[tuple[str, str]]]]:
        """Origins and links, one training at a time."""
        yield [self._origin("model", 0, 0.0, generation=0)], []
        for number in range(1, self._samples + 1):
            yield self._round(number)

    def _round(self, number: int) -> tuple[list[Origin], list[tuple[str, str]]]:
        parent, samples, model = self.champion, self._name("samples", number), self._name("model", number)
        fresh = range((number - 1) * STEP, number * STEP)
        made = [self._origin("games", batch, number + batch / BATCHES, model=parent) for batch in fresh]
        self.batches += [origin.blob for origin in made]
        window = self.batches[-self._rng.randint(WINDOW_MIN, WINDOW_MAX) :]
        made.append(self._origin("samples", number, number + 0.5, games=len(window) * GAMES_PER_BATCH))
        made.append(self._origin("model", number, number + 0.9, model=parent, samples=samples, generation=number))
        links = [(origin.blob, parent) for origin in made[: len(fresh)]]
        links += [(samples, batch) for batch in window] + [(model, samples), (model, parent)]
        self.champion, self.edges = model, self.edges + len(links)
        return made, links

    def _origin(
        self,
        kind: str,
        number: int,
        at: float,
        *,
        games: int | None = None,
        model: str | None = None,
        samples: str | None = None,
        generation: int | None = None,
    ) -> Origin:
        played = GAMES_PER_BATCH if kind == "games" else 0
        return Origin(
            blob=self._name(kind, number),
            node=self._rng.choice(self._nodes),
            kind=kind,
            variant=self.variant,
            time=1.7e9 + 60 * at,
            games=played if games is None else games,
            job=f"{kind}-{number:08}",
            job_kind="play",
            key=f"play:{self.variant}:{number}",
            seed=number,
            generation=generation,
            model=model,
            samples=samples,
            workload="bench",
            version="1",
            release="0",
            settings="0123456789abcdef",
        )


async def build(path: Path, worlds: Sequence[World]) -> None:
    """Write *worlds* through the verbs of the store, many rows to a transaction."""
    async with parts.ours(path) as ours:
        for world in worlds:
            made: list[Origin] = []
            links: list[tuple[str, str]] = []
            for origins, edges in world.rows():
                made += origins
                links += edges
                if len(made) + len(links) > ROWS_AT_ONCE:
                    await _write(ours.store, made, links)
                    made, links = [], []
            await _write(ours.store, made, links)
            async with ours.store.begin() as tx:
                await save_line(
                    tx,
                    LineOf(
                        variant=world.variant,
                        workload="bench",
                        players=2,
                        stage=Stage.COLLECTING,
                        champion=world.champion,
                        generation=SAMPLES,
                    ),
                )


async def _write(store: Store, made: Sequence[Origin], links: Sequence[tuple[str, str]]) -> None:
    async with store.begin() as tx:
        await tx.put_origins(made)
        await tx.link(links)


async def _answers(path: Path, variant: str, node: str) -> Metrics:
    """Both answers as their commands get them, from a store that this process opens for the first time."""
    async with parts.ours(path) as ours, ours.store.read() as view:
        began = time.perf_counter()
        rests = await lineage.lineage(view, (await resolve(view, variant)).model)
        msgspec.json.encode(rests)
        between = time.perf_counter()
        reached = await lineage.blast(view, node, 0.0, 1e12)
        msgspec.json.encode(reached)
        end = time.perf_counter()
    assert len(rests.parents) == SAMPLES
    assert sum(share.games for share in rests.behind) == BATCHES * GAMES_PER_BATCH
    assert reached.models[0].champion
    assert len(reached.models) >= SAMPLES - 10
    return {"lineage": (between - began) * 1000, "blast": (end - between) * 1000}


@contextmanager
def _opened(shared: Path) -> Iterator[Mapping[str, Side]]:
    began = time.perf_counter()
    rng = Random(5)
    worlds = (World("hex8_2p", NODES, SAMPLES, rng), World("square8_2p", (ALONE,), SAMPLES, rng))
    asyncio.run(build(shared / "lineage.db", worlds))
    seconds = time.perf_counter() - began
    assert all(len(world.batches) == BATCHES for world in worlds)
    path = shared / "lineage.db"
    yield {
        "ours": lambda _: asyncio.run(_answers(path, "hex8_2p", NODES[0])) | {"build": seconds},
        "alone": lambda _: asyncio.run(_answers(path, "square8_2p", ALONE)),
    }


LINEAGE = Contest(
    name="lineage",
    open=_opened,
    lines=(
        Line(
            "lineage",
            f"all inputs of a model: {SAMPLES:,} parents, {BATCHES * GAMES_PER_BATCH:,} games in {BATCHES:,} batches",
            "ms",
            "lineage",
            raw=None,
            ours_max=ANSWER_MS_MAX,
        ),
        Line(
            "blast",
            f"all models trained on games of one of {len(NODES)} nodes, among as many",
            "ms",
            "blast",
            raw=None,
            ours_max=ANSWER_MS_MAX,
        ),
        Line(
            "blast, all",
            "the same for a node that played all of them",
            "ms",
            "blast",
            "alone",
            raw=None,
            ours_max=ANSWER_MS_MAX,
        ),
        Line(
            "lineage, build",
            "to write both variants: 400,000 batches and 4,000 samples",
            "s",
            "build",
            raw=None,
            ours_max=BUILD_SECONDS_MAX,
        ),
    ),
)
