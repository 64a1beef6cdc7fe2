"""A job that will never be done is given up, and the line goes on without it."""

import msgspec
import pytest

from ringrift.events import data, model, pipeline
from ringrift.jobs import Job, Sync, Train
from ringrift.pipeline.line import Stage, _BatchCounts
from ringrift.pipeline.models import State
from unit.pipeline.story import POLICY, VARIANT, Story, at, blob, burial

KINDS = ("play", "sync", "export", "train", "verify", "match", "distribute")


def culprits(story: Story, job: Job) -> list[str | None]:
    """The inputs that may be named as the fault of *job*: none, each of its own, the champion, a stranger."""
    named = dict.fromkeys([None, *job.blobs, getattr(job, "blob", None), story.line.champion, blob("stranger")])
    return list(named)


@pytest.mark.parametrize("rounds", [0, 1])
@pytest.mark.parametrize("stage", [stage for stage in Stage if stage is not Stage.RESTING])
def test_a_burial_never_stops_the_line(stage: Stage, rounds: int) -> None:
    """In every stage each live job may be buried for any reason: the line stays consistent, and something is under
    way."""
    live = list(at(stage, rounds).alive)
    assert live

    for key in live:
        for culprit in culprits(before := at(stage, rounds), before.alive[key]):
            story = at(stage, rounds)
            story.publish(burial(story.alive.pop(key), culprit))

            assert story.lives(), (stage, key, culprit, story.line.stage)
            assert story.line.stage is not Stage.RESTING


@pytest.mark.parametrize("stage", [stage for stage in Stage if stage is not Stage.RESTING])
def test_a_strange_job_that_is_buried_changes_nothing(stage: Stage) -> None:
    """A burial about a model and games that the line does not know leaves everything as it is."""
    story = at(stage)
    before = story.line
    strange = burial(Train(variant=VARIANT, generation=0, seed=1), blob("stranger"))

    for kind in KINDS:
        key = f"{kind}:{VARIANT}:{blob('stranger')}"
        step = story.publish(msgspec.structs.replace(strange, kind=kind, key=key))

        assert (step.line, step.jobs, step.events) == (before, (), ()), kind


def test_games_that_cannot_be_copied_are_published_as_lost() -> None:
    """A batch whose copy is buried is removed from the line, with an event."""
    story = at(Stage.COLLECTING)
    story.fill()
    [copy] = story.finish("play").jobs
    lost_before = story.line.counts.lost

    step = story.bury("sync", copy.blob)

    assert step.events == (data.Lost(variant=VARIANT, blob=copy.blob, reason="exit 13", kind="games"),)
    assert (story.line.counts.lost, story.line.pending) == (lost_before + 1, ())


def test_games_that_may_still_exist_are_copied_again() -> None:
    """A copy that failed for another reason than a lost blob is tried again: nothing is counted as lost."""
    story = at(Stage.COLLECTING)
    story.fill()
    [copy] = story.finish("play").jobs
    before = story.line.counts

    step = story.bury("sync")

    assert (step.line.counts, step.events) == (before, ())
    assert [job.key for job in step.jobs] == [copy.key]


def test_games_that_can_never_be_copied_are_given_up() -> None:
    """Every retry has a count: a machine that vanished for good does not keep its games waiting for ever.

    Games that wait count as games that there are, so enough of them would stop self-play.
    """
    story = at(Stage.COLLECTING)
    story.fill()
    story.finish("play")

    for _ in range(100):
        if story.line.pending:
            story.bury("sync")

    assert story.line.pending == ()
    assert story.line.counts.lost == 1


def test_an_export_goes_on_without_the_batch_at_fault() -> None:
    """The bad batch leaves the window and counts as lost; if the rest is enough, it is exported at once."""
    story = at(Stage.EVALUATING, rounds=0)
    for _ in range(3):
        story.play_batch()
    story.go(Stage.DISTRIBUTING).finish("distribute")
    assert story.line.stage is Stage.EXPORTING
    first, *rest = story.line.window
    old = next(key for key in story.alive if key.startswith("export"))

    step = story.bury("export", first.blob)

    assert step.events[0] == data.Lost(variant=VARIANT, blob=first.blob, reason="exit 13", kind="games")
    [export] = step.jobs
    assert export.batches == tuple(batch.blob for batch in rest)
    assert export.key != old
    assert (story.line.stage, story.line.counts.lost, story.line.counts.games_lost) == (Stage.EXPORTING, 1, 10)


def test_an_export_that_fails_without_a_cause_waits_for_games() -> None:
    """Without a culprit the window stays, and the line collects until there are enough fresh games again."""
    story = at(Stage.EXPORTING, rounds=0)
    window = story.line.window

    step = story.bury("export")

    assert (step.line.stage, step.line.window, step.line.fresh, step.jobs) == (Stage.COLLECTING, window, 0, ())
    assert story.line.counts == _BatchCounts(batches=2, games=20, stored=2, games_kept=20)


CULPRITS = [("sync", "candidate", "error"), ("verify", "candidate", "refused"), ("verify", "", "refused")]
CULPRITS += [("verify", "", "cancelled"), ("sync", "", "cancelled")]


@pytest.mark.parametrize(("kind", "culprit", "cause"), CULPRITS)
def test_a_candidate_that_is_at_fault_itself_is_rejected(kind: str, culprit: str, cause: str) -> None:
    """No copy of it is left, the workload refuses it, or a person gives it up: rejected, without evidence."""
    story = at(Stage.VERIFYING, rounds=0)
    candidate = story.line.candidate
    assert candidate is not None

    step = story.bury(kind, candidate.model if culprit else None, cause)

    rejected = step.events[-1]
    assert isinstance(rejected, model.Rejected)
    assert (rejected.model, rejected.reason, rejected.evidence) == (candidate.model, f"{kind} failed: exit 13", None)
    assert (step.line.stage, step.line.candidate) == (Stage.COLLECTING, None)


@pytest.mark.parametrize(
    ("kind", "stage"), [(k, Stage.VERIFYING) for k in ("sync", "verify")] + [("match", Stage.EVALUATING)]
)
@pytest.mark.parametrize("cause", ["error", "child_died", "timeout"])
def test_a_candidate_that_could_not_be_tested_waits(kind: str, stage: Stage, cause: str) -> None:
    """The same jobs are asked for again, each time later, with a verdict; when one goes well the test goes on."""
    story = at(stage, rounds=0)
    before, failed = story.line, next(job for job in story.alive.values() if job.kind() == kind)

    pauses = []
    for _ in range(12):
        step = story.bury(kind, cause=cause)
        [again] = [job for job in step.jobs if job.key == failed.key]
        assert (step.line.stage, step.line.candidate, step.decision) == (stage, before.candidate, None)
        [verdict] = [verdict for verdict in step.verdicts if verdict.gate == "setback"]
        assert not verdict.allowed
        assert "exit 13" in verdict.rule
        pauses.append(again.pause_seconds)
        story.alive = {again.key: again} | story.alive

    assert pauses[:4] == [2.0, 4.0, 8.0, 16.0]
    assert pauses[-1] == 600.0
    story.go(Stage.DISTRIBUTING)
    assert (story.line.generation, story.line.setbacks) == (1, 0)


@pytest.mark.parametrize("cause", ["refused", "error"])
def test_a_match_that_cannot_be_played_says_nothing_about_the_candidate(cause: str) -> None:
    """A refusal that names nothing, such as that of a stage that the workload lacks, rejects nobody."""
    story = at(Stage.EVALUATING, rounds=0)
    candidate = story.line.candidate

    step = story.bury("match", cause=cause)

    assert (step.line.stage, step.line.candidate, step.decision) == (Stage.EVALUATING, candidate, None)


def test_a_champion_that_a_workload_refuses_is_not_lost() -> None:
    """It was checked when it was promoted: play waits with a verdict, longer each time, until a batch is played."""
    story = at(Stage.COLLECTING, rounds=2)
    champion, counts = story.line.champion, story.line.counts
    story.fill()

    for _ in range(2):
        step = story.bury("play", champion, "refused")
        assert (step.line.champion, step.line.counts, step.events, step.decision) == (champion, counts, (), None)
        assert [verdict.gate for verdict in step.verdicts if not verdict.allowed] == ["setback"]
    story.fill()
    assert [job.pause_seconds for job in story.alive.values() if job.kind() == "play"] == [4.0, 4.0]
    story.play_batch()

    assert story.line.setbacks == 0


def test_a_failed_extra_copy_does_not_reject_a_candidate() -> None:
    """A candidate that was copied, checked and is being judged is not rejected because an extra copy failed."""
    story = at(Stage.EVALUATING, rounds=0)
    before, candidate = story.line, story.line.candidate
    assert candidate is not None
    extra = Sync(variant=VARIANT, blob=candidate.model, kind_of="model", source="n")

    assert story.publish(burial(extra)).line == before


def test_a_match_that_the_candidate_spoils_rejects_it() -> None:
    """A buried match that names the candidate ends the challenge and cancels the rest of it."""
    story = at(Stage.EVALUATING, rounds=0)
    assert story.line.candidate is not None

    step = story.bury("match", story.line.candidate.model)

    assert (step.line.stage, step.line.candidate) == (Stage.COLLECTING, None)
    assert "match" not in story.labels()


def test_generation_0_is_made_again_until_it_is_good() -> None:
    """Without a champion there is nothing to go back to: the first model is made again, each time later."""
    story = Story()
    [first] = story.alive.values()

    for round, kind in enumerate(("train", "sync", "verify")):
        if kind != "train":
            story.finish("train")
        candidate = story.line.candidate
        step = story.bury(kind, candidate.model if candidate else None)

        later = msgspec.structs.replace(first, pause_seconds=2.0 * 2**round)
        assert (step.line.stage, step.jobs) == (Stage.STARTING, (later,))
        assert any(verdict.gate == "setback" and "exit 13" in verdict.rule for verdict in step.verdicts)
        story.alive = {first.key: first}


def test_a_lost_champion_gives_way_to_the_one_before_it() -> None:
    """When no copy of it can be had, the one before it is brought to every node, and the loss is published."""
    story = at(Stage.COLLECTING, rounds=2)
    champion, previous, iteration = story.line.champion, story.line.previous, story.line.iteration
    first = story.line.ancestors[0].model
    story.fill()

    step = story.bury("play", champion)

    line = step.line
    assert (line.champion, line.generation, line.iteration) == (previous, 1, iteration)
    assert line.previous == first
    assert story.models[champion or ""].state is State.LOST
    assert line.stage is Stage.DISTRIBUTING
    lost = data.Lost(variant=VARIANT, blob=champion or "", reason="exit 13", kind="model")
    [move] = [event for event in step.events if isinstance(event, pipeline.Moved)]
    assert step.events.index(move) < step.events.index(lost)  # its alert is open until the line moves again
    assert "distribute" in story.labels()


@pytest.mark.parametrize(
    "stage", [Stage.COLLECTING, Stage.EXPORTING, Stage.TRAINING, Stage.VERIFYING, Stage.EVALUATING]
)
def test_a_lost_champion_is_rolled_back_like_any_other(stage: Stage) -> None:
    """From every stage: the decision is recorded, the event published, and what rested on the champion is cancelled."""
    story = at(stage, rounds=2)
    champion, previous, candidate = story.line.champion, story.line.previous, story.line.candidate

    step = story.bury("play", champion)

    [event] = [event for event in step.events if isinstance(event, model.RolledBack)]
    reason = "no copy of the champion is left: exit 13"
    assert (event.model, event.to, event.reason, event.evidence) == (champion, previous, reason, None)
    assert step.decision is not None
    assert (step.decision.kind, step.decision.model, step.decision.previous) == ("rollback", previous, champion)
    assert (step.decision.reason, step.decision.promoted) == (reason, False)
    assert not story.labels() & {"match", "export", "train"}
    assert candidate is None or story.models[candidate.model].state is State.REJECTED
    assert story.go(Stage.COLLECTING).line.champion == previous


def test_a_lost_champion_without_a_predecessor_leads_back_to_generation_0() -> None:
    """When the one before it is lost too, the line starts anew, with the same seed and so the same bytes."""
    story = at(Stage.COLLECTING, rounds=1)
    story.fill()
    story.bury("play", story.line.champion)

    step = story.bury("play", story.line.champion)

    assert (step.line.stage, step.line.champion, step.line.generation) == (Stage.STARTING, None, -1)
    trains = [msgspec.structs.replace(job, pause_seconds=0.0) for job in step.jobs if isinstance(job, Train)]
    assert trains == list(Story().alive.values())
    assert story.go(Stage.COLLECTING).line.generation == 0


@pytest.mark.parametrize(("kind", "stage"), [("train", Stage.TRAINING), ("match", Stage.EVALUATING)])
def test_every_job_that_misses_the_champion_reports_it(kind: str, stage: Stage) -> None:
    """Training and matches that cannot get the champion report it as self-play does."""
    story = at(stage, rounds=1)
    previous = story.line.previous

    step = story.bury(kind, story.line.champion)

    assert (step.line.champion, step.line.candidate) == (previous, None)
    assert "match" not in story.labels()


def test_training_that_fails_waits_for_new_games() -> None:
    """A buried training is not tried on the same samples again."""
    story = at(Stage.TRAINING, rounds=0)

    step = story.bury("train", story.line.samples)

    assert (step.line.stage, step.line.samples, step.jobs) == (Stage.COLLECTING, None, ())


def test_a_champion_without_distribution_is_still_champion() -> None:
    """Nodes that lack it fetch it when they need it, so a buried distribution only ends the stage."""
    story = at(Stage.DISTRIBUTING, rounds=1)
    champion = story.line.champion

    step = story.bury("distribute")

    assert (step.line.stage, step.line.champion) == (Stage.COLLECTING, champion)


def test_a_resting_line_that_loses_its_champion_rests_on() -> None:
    """Promotions that were made stay made: the line goes back to the earlier champion and rests."""
    story = Story(msgspec.structs.replace(POLICY, iterations_max=1))
    story.go(Stage.RESTING)
    previous = story.line.previous

    story.bury("play", story.line.champion)
    story.finish("distribute")

    assert (story.line.stage, story.line.champion, story.line.iteration) == (Stage.RESTING, previous, 1)
