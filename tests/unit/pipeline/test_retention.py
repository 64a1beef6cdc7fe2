"""Retention deletes only what nothing needs, whatever a store holds."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringrift.blobs.ports import StoredBlob
from ringrift.daemons.sweep import _Files
from ringrift.jobs import Distribute, Export, Import, Job, Match, Play, Rate, Sync, Train, Verify
from ringrift.kernel.settings import Gate
from ringrift.kernel.value import changed
from ringrift.pipeline.inbox import INBOX, InboxFile
from ringrift.pipeline.line import LINES, Ancestor, Batch, Candidate, Challenge, Line, Review, Stage
from ringrift.pipeline.models import MODELS, Model, State
from ringrift.pipeline.ratings import RATINGS, LineRatings
from ringrift.pipeline.retention import _judge, _Pins, rule
from unit.pipeline.blob_rig import DAY, OTHER, SWEEP, Shelf, made
from unit.pipeline.story import VARIANT, blob
from unit.work.world import World, play

POOL = [blob(f"pool {number}") for number in range(40)]
one_blob = st.sampled_from(POOL)
some = st.lists(one_blob, max_size=4, unique=True)


@st.composite
def lines(draw: st.DrawFn, variant: str) -> Line:
    """A line that mentions blobs of the pool wherever a line can."""
    champion, batches = draw(one_blob), draw(st.lists(one_blob, max_size=5, unique=True))
    cut = draw(st.integers(0, len(batches)))
    challenge = Challenge(opponent=champion, gate=Gate(), seed=1)
    candidate = Candidate(model=draw(one_blob), generation=3, challenge=draw(st.sampled_from([None, challenge])))
    line = Line(variant=variant, workload="fake", players=2, champion=champion, generation=2)
    opponent = changed(challenge, opponent=draw(one_blob))
    return changed(
        line,
        stage=Stage.EVALUATING,
        candidate=candidate,
        review=draw(st.sampled_from([None, Review(reason="r", challenge=opponent)])),
        ancestors=tuple(Ancestor(model, 0) for model in draw(some)),
        window=tuple(Batch(blob=name, games=1) for name in batches[:cut]),
        pending=tuple(Batch(blob=name, games=1) for name in batches[cut:]),
        samples=draw(st.none() | one_blob),
        manual_jobs=tuple(Sync(variant=variant, blob=name, kind_of="games", source="n") for name in draw(some)[:1]),
    )


def needed_by(line: Line) -> set[str | None]:
    """Every blob of *line*, field by field."""
    review = {line.review.challenge.opponent} if line.review else set()
    models = {line.champion, *review, *(ancestor.model for ancestor in line.ancestors)}
    models |= {line.candidate.model} if line.candidate else set()
    batches = {batch.blob for batch in (*line.window, *line.pending)}
    return models | batches | {line.samples} | {job.blob for job in line.manual_jobs if isinstance(job, Sync)}


_JOBS: tuple[Callable[[str], Job], ...] = (
    lambda name: Play(variant=VARIANT, model=name, games=1, seed=int(name[:6], 16)),
    lambda name: Sync(variant=VARIANT, blob=name, kind_of="games", source="n"),
    lambda name: Export(variant=VARIANT, batches=(name,), seed=int(name[:6], 16)),
    lambda name: Train(variant=VARIANT, generation=1, samples=name, parent=POOL[0], seed=int(name[:6], 16)),
    lambda name: Verify(variant=VARIANT, model=name),
    lambda name: Match(variant=VARIANT, candidate=POOL[1], champion=name, first=0, count=1),
    lambda name: Distribute(variant=VARIANT, model=name),
    lambda name: Rate(variant=VARIANT, tally=name),
    lambda name: Import(variant=VARIANT, file=name),
)
jobs = st.lists(st.tuples(st.sampled_from(range(len(_JOBS))), one_blob), max_size=5)
models = st.lists(st.tuples(one_blob, st.lists(st.sampled_from(list(State)), min_size=1, max_size=3)), max_size=6)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([VARIANT, OTHER]), max_size=2, unique=True).flatmap(
        lambda variants: st.tuples(*(lines(variant) for variant in variants))
    ),
    jobs, models, st.lists(st.tuples(one_blob, one_blob), max_size=8), some, one_blob,
    st.lists(st.sampled_from([0.0, 9.0, 11.0, 30.0]), min_size=len(POOL), max_size=len(POOL)),
)  # fmt: skip
def test_nothing_that_is_pinned_is_ever_deleted(
    tmp_path_factory: pytest.TempPathFactory,
    drawn: tuple[Line, ...],
    open_jobs: list[tuple[int, str]],
    lives: list[tuple[str, list[State]]],
    pairs: list[tuple[str, str]],
    imported: list[str],
    report: str,
    ages: list[float],
) -> None:
    """Whatever lines, jobs, models and facts there are: what any of them needs stays, and so does what is young."""

    async def story(world: World) -> None:
        world.clock.seconds += 40 * DAY
        now, shelf = world.clock.now(), Shelf(world)
        shelf.blobs.files = dict.fromkeys(POOL, b"")
        shelf.blobs._times = {name: now - age * DAY for name, age in zip(POOL, ages, strict=True)}
        async with world.store.begin() as tx:
            await LINES.put(tx, drawn)
            await tx.put_origins([made(name, "model", 0.0) for name in POOL])
            await tx.link(pairs)
            await INBOX.put(tx, [InboxFile(variant=VARIANT, file=n, name=n, node="here", model=n) for n in imported])
            await RATINGS.put(tx, [LineRatings(variant=VARIANT, report=report)])
            rows = {name: (states[-1], tuple((state, 0.0) for state in states)) for name, states in lives}
            records = [(name, {"state": state, "steps": steps}) for name, (state, steps) in rows.items()]
            await MODELS.put(
                tx, [Model(variant=VARIANT, model=name, generation=1, since=0.0, **facts) for name, facts in records]
            )
        enqueued = {_JOBS[index](name).key: (index, name) for index, name in reversed(open_jobs)}  # of a key, the first
        await world.desk().enqueue([_JOBS[index](name) for index, name in open_jobs])
        async with world.store.read() as view:
            champions = sorted({line.champion for line in drawn if line.champion})
            ancestors = await view.walk(champions, True, 1000)
        pinned = {name for line in drawn for name in needed_by(line)} | {name for _, name in enqueued.values()}
        pinned |= {*imported, report, *ancestors}
        if VARIANT in {line.variant for line in drawn}:
            pinned |= {name for name, (state, _) in rows.items() if state is not State.REJECTED}
            pinned |= {name for name, (_, steps) in rows.items() if any(s is State.CHAMPION for s, _ in steps)}
        else:
            pinned |= set(POOL)  # all that is here was made for a line that is not known
        young = {name for name, age in zip(POOL, ages, strict=True) if age < 10.0}
        helpers = {POOL[0]} if any(index == 3 for index, _ in open_jobs) else set()
        helpers |= {POOL[1]} if any(index == 5 for index, _ in open_jobs) else set()

        async with world.store.read() as view:
            rulings = await rule(view, await shelf.blobs.page("", 100), SWEEP, now)
        files = _Files(world.store, shelf.blobs, world.envelopes, SWEEP)
        removed = await files.remove(await shelf.blobs.page("", 100), now)

        assert removed == {ruling.blob for ruling in rulings if ruling.goes} == set(POOL) - set(shelf.blobs.files)
        assert removed == set(POOL) - pinned - young - helpers

    play(tmp_path_factory.mktemp("world"), story)


@given(st.floats(allow_nan=True), st.floats(allow_nan=True), st.floats(-1e9, 1e9))
def test_a_clock_that_is_off_deletes_nothing_young(time: float, origin_time: float, now: float) -> None:
    """A file from the future, or with a time that is no number, stays."""
    origins = [made(POOL[0], "games", origin_time)]
    pins = _Pins(variants=frozenset({VARIANT}))
    ruling = _judge(StoredBlob(blob=POOL[0], size=1, time=time), origins, pins, SWEEP, now)

    newest = max(time, origin_time) if not (math.isnan(time) or math.isnan(origin_time)) else math.nan
    assert ruling.goes == (now - newest >= SWEEP.retention_seconds)
