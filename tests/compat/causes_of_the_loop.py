"""What can happen to a line, each as a story that its daemons play."""

from compat.scene import Loop, Scene, loop_at
from ringrift.cluster.roster import Roster
from ringrift.daemons.watch import watch
from ringrift.events import evaluation, pipeline
from ringrift.jobs import Import, Rate
from ringrift.kernel.settings import BusSettings, Gate, StageLimits
from ringrift.kernel.stall_detector import StallDetector
from ringrift.kernel.value import changed
from ringrift.pipeline import operator
from ringrift.pipeline.line import Stage
from ringrift.pipeline.operator import Actor
from ringrift.pipeline.ratings import RATINGS, ChampionPeriod, LineRatings
from ringrift.store.ports import Renewal
from ringrift.work.desk import Done, JobOutcome
from ringrift.workload.api import Artifact, JobResult
from unit.pipeline.story import LOSS, VARIANT, WIN, result

HOUR = 3600.0
NARROW = {"review_promotions": 1, "review": Gate(elo_0=-60.0, elo_1=0.0, blocks_min=2, blocks_max=4)}
WIDE = {"review_promotions": 1, "review": Gate(elo_0=-400.0, elo_1=0.0, blocks_min=2, blocks_max=8)}
"""Gates of a review: one that is never sure of a small loss, and one that passes a champion that wins."""
LIMITS = StageLimits(collecting_seconds_max=100.0, training_seconds_max=100.0, evaluating_seconds_max=100.0)


async def a_line_is_opened(scene: Scene) -> None:
    """Generation 0 is trained, copied, verified, promoted and distributed."""
    await scene.listen()
    await (await Loop(scene).open()).go(Stage.COLLECTING)


async def a_batch_is_played_and_copied(scene: Scene) -> None:
    """One batch, too few games for an export."""
    async with loop_at(scene, Stage.COLLECTING) as loop:
        await loop.play_batch()


async def enough_games_are_there(scene: Scene) -> None:
    """The last batch that an export needs."""
    loop = await (await Loop(scene).open()).go(Stage.COLLECTING)
    await loop.play_batch()
    await loop.finish("play")
    await scene.listen()
    await loop.finish("sync", purpose="games")


async def an_export_is_requested_early(scene: Scene) -> None:
    """An operator requests an export of fewer games."""
    loop = await (await Loop(scene).open()).go(Stage.COLLECTING)
    await loop.play_batch()
    await scene.listen()
    await loop.publish(pipeline.Requested(variant=VARIANT, stage="export"))


async def samples_are_exported(scene: Scene) -> None:
    """An export ends well."""
    async with loop_at(scene, Stage.EXPORTING) as loop:
        await loop.finish("export")


async def batches_are_refused(scene: Scene) -> None:
    """An export leaves out a batch whose games do not replay."""
    async with loop_at(scene, Stage.EXPORTING) as loop:
        lease, job = await loop.claim("export")
        event = changed(result(job), refused=(job.blobs[0],))
        done = Done(lease=Renewal(job=lease.job, fence=lease.fence), outcome=JobOutcome(events=(event,)))
        await scene.world.desk().finish([done])
        await loop.settle()


async def a_model_is_trained(scene: Scene) -> None:
    """Training ends well."""
    async with loop_at(scene, Stage.TRAINING) as loop:
        await loop.finish("train")


async def a_candidate_is_verified(scene: Scene) -> None:
    """A trained model is checked, and has no copies yet."""
    async with loop_at(scene, Stage.VERIFYING, 1) as loop:
        await loop.finish("verify")


async def a_test_begins(scene: Scene) -> None:
    """The last thing that a candidate needs before its match."""
    loop = await (await Loop(scene).open()).go(Stage.COLLECTING)
    await loop.go(Stage.VERIFYING)
    await loop.finish("verify")
    await scene.listen()
    await loop.finish("sync", purpose="model")


async def a_candidate_wins(scene: Scene) -> None:
    """The gate promotes it."""
    async with loop_at(scene, Stage.EVALUATING) as loop:
        await loop.go(Stage.DISTRIBUTING)


async def a_champion_is_distributed(scene: Scene) -> None:
    """Every node that plays has it."""
    async with loop_at(scene, Stage.DISTRIBUTING) as loop:
        await loop.finish("distribute")


async def _lose(loop: Loop) -> None:
    while (await loop.line()).stage is Stage.EVALUATING:
        await loop.finish("match", LOSS, purpose="promotion")


async def a_candidate_loses(scene: Scene) -> None:
    """The gate rejects it."""
    async with loop_at(scene, Stage.EVALUATING) as loop:
        await _lose(loop)


async def candidates_lose_in_a_row(scene: Scene) -> None:
    """The last of as many rejections as make a plateau."""
    loop = await Loop(scene, plateau_rejections=2).open()
    await loop.go(Stage.EVALUATING)
    await _lose(loop)
    await loop.go(Stage.EVALUATING)
    await scene.listen()
    await _lose(loop)


async def a_model_is_found_damaged(scene: Scene) -> None:
    """The check of a candidate names the model as the fault."""
    async with loop_at(scene, Stage.VERIFYING, 1) as loop:
        candidate = (await loop.line()).candidate
        assert candidate is not None
        await loop.bury("verify", candidate.model)


async def a_check_cannot_be_done(scene: Scene) -> None:
    """The check of a candidate is given up for a reason that is not the model's."""
    async with loop_at(scene, Stage.VERIFYING, 1) as loop:
        await loop.bury("verify")


async def a_champion_is_lost(scene: Scene) -> None:
    """No copy of it is left."""
    async with loop_at(scene, Stage.COLLECTING, 1) as loop:
        champion = (await loop.line()).champion
        assert champion is not None
        await loop.lose("play", champion)


async def games_are_lost(scene: Scene) -> None:
    """No copy of a batch is left."""
    loop = await (await Loop(scene).open()).go(Stage.COLLECTING)
    await loop.finish("play")
    await scene.listen()
    await loop.bury("sync", (await loop.line()).pending[0].blob, purpose="games")


async def _review(loop: Loop, score: float) -> None:
    while (await loop.line()).review is not None:
        await loop.finish("match", (score, score), purpose="review")


async def _reviewed(scene: Scene, score: float) -> None:
    async with loop_at(scene, Stage.COLLECTING, 1, **(WIDE if score in (0.0, 1.0) else NARROW)) as loop:
        await _review(loop, score)


async def a_champion_fails_its_review(scene: Scene) -> None:
    """It lost all its blocks against the one before it."""
    await _reviewed(scene, 0.0)


async def a_champion_lost_a_little(scene: Scene) -> None:
    """Its review says that it is 28 Elo weaker."""
    await _reviewed(scene, 0.46)


async def a_champion_lost_more(scene: Scene) -> None:
    """Its review says that it is 42 Elo weaker."""
    await _reviewed(scene, 0.44)


async def a_champion_lost_much(scene: Scene) -> None:
    """Its review says that it is 63 Elo weaker."""
    await _reviewed(scene, 0.41)


async def a_champion_passes_its_review(scene: Scene) -> None:
    """It is as strong as it was."""
    await _reviewed(scene, 1.0)


async def a_regression_is_over(scene: Scene) -> None:
    """After a rollback another champion passes its review."""
    loop = await Loop(scene, **WIDE).open()
    for score in (0.0, 1.0):
        await loop.go(Stage.EVALUATING)
        await loop.go(Stage.DISTRIBUTING)
        await loop.finish("distribute")
        if score:
            await scene.listen()
        await _review(loop, score)


async def an_operator_rolls_back(scene: Scene) -> None:
    """A person takes a champion away while a candidate is tested against it."""
    async with loop_at(scene, Stage.EVALUATING, 1) as loop:
        actor = Actor(envelopes=scene.world.envelopes, now=scene.world.clock.now())
        async with scene.world.store.begin() as tx:
            await operator.roll_back(tx, VARIANT, None, "it is rude", policy=loop.policy, actor=actor)
        await loop.settle()


async def a_model_is_imported(scene: Scene) -> None:
    """A file from elsewhere became a model."""
    async with loop_at(scene, Stage.COLLECTING) as loop:
        await scene.world.desk().enqueue([Import(variant=VARIANT, file="f" * 64)])
        await loop.settle()
        lease, job = await loop.claim("import")
        assert isinstance(job, Import)
        events = job.to_events(JobResult(outputs=(Artifact("model", "m" * 64, 1),)), "n", False)
        done = Done(lease=Renewal(job=lease.job, fence=lease.fence), outcome=JobOutcome(events=events))
        await scene.world.desk().finish([done])


async def _rated(scene: Scene, *elos: float) -> None:
    strengths = [
        evaluation.Strength(
            weights=f"m{n}", settings="", elo=elo, lower=elo - 1, upper=elo + 1, blocks=9, anchored=True
        )
        for n, elo in enumerate(elos)
    ]
    loop = await (await Loop(scene).open()).go(Stage.COLLECTING)
    now = scene.world.clock.now()
    periods = [ChampionPeriod(model=f"m{n}", generation=n, since=now + n * HOUR) for n in range(len(elos))]
    async with scene.world.store.begin() as tx:
        await RATINGS.put(tx, [LineRatings(variant=VARIANT, periods=tuple(periods))])
    scene.world.clock.seconds += len(elos) * HOUR
    await scene.listen()
    await scene.world.desk().enqueue([Rate(variant=VARIANT, tally="t" * 64)])
    summary = evaluation.Summary(players=len(elos), blocks=9, strengths=tuple(strengths))
    lease, job = await loop.claim("rate")
    event = evaluation.Rated(variant=VARIANT, report="r", tally=job.blobs[0], node="n", summary=summary)
    done = Done(lease=Renewal(job=lease.job, fence=lease.fence), outcome=JobOutcome(events=(event,)))
    await scene.world.desk().finish([done])
    await loop.settle()


async def players_are_rated(scene: Scene) -> None:
    """Too few champions for a trend."""
    await _rated(scene, 0.0)


async def a_line_grows_faster(scene: Scene) -> None:
    """Ratings that show a new trend."""
    await _rated(scene, 0.0, 40.0, 80.0, 120.0)


async def _overdue(scene: Scene, stage: Stage, promotions: int = 0) -> None:
    async with loop_at(scene, stage, promotions, stages=LIMITS) as loop:
        scene.world.clock.seconds += 101.0
        roles = await scene.world.roles()
        await watch(
            store=scene.world.store, roster=Roster(scene.world.store, scene.world.clock, 5.0), roles=roles,
            envelopes=scene.world.envelopes, clock=scene.world.clock, policy=loop.policy, bus_settings=BusSettings(),
            memory=StallDetector(),
        )  # fmt: skip


async def a_training_takes_too_long(scene: Scene) -> None:
    """The line has been training for longer than it should."""
    await _overdue(scene, Stage.TRAINING)


async def a_test_takes_too_long(scene: Scene) -> None:
    """The line has been evaluating for longer than it should."""
    await _overdue(scene, Stage.EVALUATING)


async def games_are_missing(scene: Scene) -> None:
    """The line has waited for games for longer than it should."""
    await _overdue(scene, Stage.COLLECTING)


async def a_late_training_ends(scene: Scene) -> None:
    """A line that was overdue moves on."""
    async with loop_at(scene, Stage.TRAINING, stages=LIMITS) as loop:
        scene.world.clock.seconds += 200.0
        await loop.finish("train")


async def a_late_test_ends(scene: Scene) -> None:
    """A line whose evaluation was overdue moves on."""
    async with loop_at(scene, Stage.EVALUATING, stages=LIMITS) as loop:
        scene.world.clock.seconds += 200.0
        while (await loop.line()).stage is Stage.EVALUATING:
            await loop.finish("match", WIN, purpose="promotion")


async def _requested(scene: Scene, stage: str) -> None:
    async with loop_at(scene, Stage.TRAINING) as loop:
        await loop.publish(pipeline.Requested(variant=VARIANT, stage=stage))


async def a_copy_is_requested(scene: Scene) -> None:
    """An operator requests the stage sync."""
    await _requested(scene, "sync")


async def a_training_is_requested(scene: Scene) -> None:
    """An operator requests the stage train."""
    await _requested(scene, "train")


async def a_test_is_requested(scene: Scene) -> None:
    """An operator requests the stage evaluate."""
    await _requested(scene, "evaluate")


async def a_promotion_is_requested(scene: Scene) -> None:
    """An operator requests the stage promote."""
    await _requested(scene, "promote")
