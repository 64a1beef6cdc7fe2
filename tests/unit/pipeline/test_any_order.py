"""Events in any order leave a line consistent, alive and with a justified champion."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ringrift.events import data, evaluation, model, pipeline, selfplay, training, work
from ringrift.events.base import Event
from ringrift.jobs import Match
from ringrift.pipeline.line import Line, Stage, needed_blobs
from ringrift.pipeline.requests import STAGES
from ringrift.pipeline.step import Step
from unit.pipeline.story import LOSS, VARIANT, WIN, Story, blob, burial, result

POOL = st.sampled_from([blob(name) for name in ("one", "two", "three")])
SCORES = st.sampled_from([WIN, LOSS, (1.0, 0.5), (0.5, 0.0)])
NUMBERS = st.integers(min_value=-1, max_value=9)


@st.composite
def strangers(draw: st.DrawFn, story: Story) -> Event:
    """A plausible event with ids from a small pool, from the line itself, or a repeated one."""
    ids = st.one_of(POOL, st.sampled_from(sorted(needed_blobs(story.line)) or [blob("one")]))
    played = st.builds(evaluation.Block, number=NUMBERS, scores=SCORES)
    kinds = ["play", "sync", "export", "train", "verify", "match", "distribute"]
    events = st.one_of(
        st.builds(
            selfplay.BatchFinished,
            variant=st.just(VARIANT),
            batch=POOL,
            games=st.integers(1, 30),
            node=st.just("n"),
            model=ids,
            ephemeral=st.booleans(),
        ),
        st.builds(
            data.Synced,
            variant=st.just(VARIANT),
            blob=ids,
            kind=st.sampled_from(["games", "model", "samples"]),
            nodes=st.just(("n",)),
        ),
        st.builds(model.Verified, variant=st.just(VARIANT), model=ids, node=st.just("n")),
        st.builds(model.Distributed, variant=st.just(VARIANT), model=ids, nodes=st.just(())),
        st.builds(
            evaluation.BlocksPlayed,
            variant=st.just(VARIANT),
            candidate=ids,
            champion=ids,
            node=st.just("n"),
            blocks=st.lists(played, max_size=4).map(tuple),
        ),
        st.builds(
            work.Buried,
            variant=st.just(VARIANT),
            job=st.just("j"),
            kind=st.sampled_from(kinds),
            attempts=st.just(4),
            key=ids.map(lambda id: f"x:{VARIANT}:{id}"),
            error=st.just("no"),
            blob=st.none() | ids,
        ),
        st.builds(pipeline.Requested, variant=st.just(VARIANT), stage=st.sampled_from([*STAGES, "nonsense"])),
    )
    log = st.sampled_from(story.events) if story.events else events
    return draw(st.one_of(events, log))


def champion_is_honest(before: Line, step: Step) -> bool:
    """Return whether a change of champion has its promotion on evidence, is generation 0, or follows a published
    loss."""
    line = step.line
    if line.champion == before.champion:
        return True
    promoted = [event for event in step.events if isinstance(event, model.Promoted)]
    if promoted:
        [verdict] = promoted
        proved = (
            verdict.evidence is not None
            and verdict.previous == before.champion
            and line.iteration == before.iteration + 1
        )
        first = verdict.generation == 0 and before.champion is None and line.iteration == before.iteration
        return verdict.model == line.champion and (proved or first) and step.decision is not None
    lost = [event.blob for event in step.events if isinstance(event, data.Lost)]
    return before.champion in lost and line.champion == before.previous


def moved_for_a_reason(before: Line, event: Event, step: Step) -> bool:
    """Return whether the stage stayed, or moved by an event that may move it, with the move published."""
    if step.line.stage is before.stage:
        return True
    movers = {
        Stage.STARTING: (training.Finished,),
        Stage.VERIFYING: (data.Synced, model.Verified),
        Stage.DISTRIBUTING: (model.Distributed,),
        Stage.COLLECTING: (data.Synced, pipeline.Requested),
        Stage.EXPORTING: (data.Exported,),
        Stage.TRAINING: (training.Finished,),
        Stage.EVALUATING: (evaluation.BlocksPlayed,),
        Stage.RESTING: (),
    }[before.stage]
    moves = [(moved.before, moved.stage) for moved in step.events if moved.name() == "pipeline.moved"]
    return isinstance(event, (*movers, work.Buried)) and moves == [(before.stage, step.line.stage)]


def take(story: Story, event: Event) -> None:
    """Publish *event*, and check every invariant after it."""
    before = story.line
    step = story.publish(event)  # checks the line

    assert step.line.iteration >= before.iteration
    assert champion_is_honest(before, step)
    assert moved_for_a_reason(before, event, step)
    assert step.line.counts.batches >= before.counts.batches
    assert step.line.plays == before.plays


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_any_order_of_events_keeps_the_line_sound(data: st.DataObject) -> None:
    """Jobs end well or badly in any order, strangers and repetitions come between: every rule holds at every step."""
    story = Story()

    for _ in range(data.draw(st.integers(5, 30))):
        story.fill()
        deed = data.draw(st.sampled_from(["finish", "finish", "finish", "bury", "strange"]))
        if deed == "strange" or not story.alive:
            take(story, data.draw(strangers(story)))
            continue
        job = story.alive.pop(data.draw(st.sampled_from(sorted(story.alive))))
        if deed == "finish":
            take(story, result(job, data.draw(SCORES)))
        else:
            culprit = data.draw(st.sampled_from([None, *job.blobs, story.line.champion]))
            take(story, burial(job, culprit))


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_as_long_as_jobs_end_the_line_lives(data: st.DataObject) -> None:
    """Whatever the outcome of its jobs, in any order, there is always one under way that the line waits for."""
    story = Story()

    for _ in range(data.draw(st.integers(5, 40))):
        story.fill()
        job = story.alive.pop(data.draw(st.sampled_from(sorted(story.alive))))
        well = data.draw(st.integers(0, 4)) > 0
        culprit = None if well else data.draw(st.sampled_from([None, *job.blobs, story.line.champion]))
        scores = data.draw(SCORES) if isinstance(job, Match) else WIN
        take(story, result(job, scores) if well else burial(job, culprit))

        assert story.lives(), story.line.stage


@settings(max_examples=15, deadline=None)
@given(st.randoms(use_true_random=False))
def test_from_anywhere_the_loop_comes_round(rng: object) -> None:
    """After any trouble, jobs that end well from then on bring the line to its next promotion."""
    story = Story()
    for _ in range(30):
        story.fill()
        job = story.alive.pop(rng.choice(sorted(story.alive)))
        bad = rng.random() < 0.4
        story.publish(burial(job, rng.choice([None, *job.blobs])) if bad else result(job, rng.choice([WIN, LOSS])))
    before = story.line.iteration

    for _ in range(200):
        if story.line.iteration > before:
            break
        story.fill()
        key = min(story.alive, key=lambda key: story.alive[key].kind() == "play")
        story.publish(result(story.alive.pop(key), WIN))

    assert story.line.iteration == before + 1
