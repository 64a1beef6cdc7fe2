"""Story: a line with its live jobs, moved from event to event and checked after each."""

import hashlib

from ringrift.evaluation.budget import open_account
from ringrift.events import data, evaluation, model, pipeline, selfplay, training, work
from ringrift.events.base import Event
from ringrift.jobs import Distribute, Export, Job, Match, Play, Purpose, Sync, Train, Verify
from ringrift.kernel.settings import Budget, Gate, Policy
from ringrift.kernel.value import changed
from ringrift.pipeline.line import Line, Stage, check, may_play, top_up
from ringrift.pipeline.machine import advance, new_line
from ringrift.pipeline.models import Model, become
from ringrift.pipeline.step import Step, context_for
from ringrift.work.run_states import RunStates

VARIANT = "hex8_2p"
POLICY = Policy(
    variants=(VARIANT,),
    games_per_batch=10,
    games_per_export=20,
    window_batches_max=3,
    play_jobs_open=2,
    blocks_per_job=2,
    match_jobs_open=2,
    gate=Gate(elo_0=0.0, elo_1=200.0, blocks_min=4, blocks_max=8),
    budget=Budget(share=0.5, start=1.0),
    review_promotions=0,
)
WIN, LOSS, EVEN = (1.0, 1.0), (0.0, 0.0), (0.5, 0.5)


def blob(name: str) -> str:
    """A blob id that stands for *name*."""
    return hashlib.sha256(name.encode()).hexdigest()


def result(job: Job, scores: tuple[float, ...] = WIN) -> Event:
    """The event when *job* ends well; the same job always makes the same bytes."""
    match job:
        case Play():
            batch = blob(f"batch {job.seed} {job.model}")
            return selfplay.BatchFinished(variant=VARIANT, batch=batch, games=job.games, node="n", model=job.model)
        case Sync():
            return data.Synced(variant=VARIANT, blob=job.blob, kind=job.kind_of, nodes=("n",))
        case Export():
            samples = blob(f"samples {job.seed}")
            return data.Exported(
                variant=VARIANT, samples=samples, count=600, batches=job.batches, node="n", job=job.key
            )
        case Train():
            made = blob(f"model {job.generation} {job.seed}")
            return training.Finished(
                variant=VARIANT,
                model=made,
                generation=job.generation,
                node="n",
                samples=job.samples,
                parent=job.parent,
                job=job.key,
            )
        case Verify():
            return model.Verified(variant=VARIANT, model=job.model, node="n")
        case Match():
            blocks = [evaluation.Block(number=job.first + n, scores=scores) for n in range(job.count)]
            names = {"candidate": job.candidate, "champion": job.opponent, "seed": job.seed}
            return evaluation.BlocksPlayed(variant=VARIANT, blocks=tuple(blocks), node="n", **names)
        case Distribute():
            return model.Distributed(variant=VARIANT, model=job.model, nodes=("n",))
    raise AssertionError(job)


def burial(job: Job, culprit: str | None = None, cause: str = "error") -> work.Buried:
    """The event when *job* will never be done."""
    names = {"purpose": job.purpose, "candidate": job.candidate} if isinstance(job, Match) else {}
    names |= {"key": job.key, "cause": cause}
    return work.Buried(variant=VARIANT, job="j", kind=job.kind(), error="exit 13", attempts=4, blob=culprit, **names)


def label(job: Job) -> str:
    """Return the kind of *job*; for a match that cannot promote, its purpose."""
    return job.purpose if isinstance(job, Match) and job.purpose != Purpose.PROMOTION else job.kind()


def is_awaited(line: Line, job: Job) -> bool:
    """Return whether *line* would stand still for ever without *job*."""
    candidate = line.candidate
    match line.stage, job:
        case ((Stage.STARTING | Stage.TRAINING), Train()):
            return True
        case Stage.EXPORTING, Export():
            return True
        case Stage.VERIFYING, Sync() if candidate is not None and not candidate.copied:
            return job.blob == candidate.model
        case Stage.VERIFYING, Verify() if candidate is not None and candidate.copied:
            return job.model == candidate.model
        case Stage.EVALUATING, Match() if candidate is not None:
            return (label(job), job.candidate) == ("match", candidate.model)
        case Stage.DISTRIBUTING, Distribute():
            return job.model == line.champion
    return False


class Story:
    """One line from its opening on."""

    def __init__(self, policy: Policy = POLICY) -> None:
        self.policy, self.at = policy, 0.0
        self.alive: dict[str, Job] = {}
        self.events: list[Event] = []
        self.models: dict[str, Model] = {}
        self.account = open_account(policy.budget)
        self.run_states = RunStates()
        opened = pipeline.Opened(variant=VARIANT, workload="fake")
        self.line = new_line(opened)
        self.apply(self.decide(opened))

    def decide(self, event: Event) -> Step:
        """Return the step that follows from *event*."""
        context = context_for(self.line, self.policy, self.at, self.account)
        return advance(self.line, event, changed(context, run_states=self.run_states))

    def publish(self, event: Event) -> Step:
        """Let *event* happen."""
        self.at += 1.0
        step = self.decide(event)
        self.events.append(event)
        self.apply(step)
        return step

    def apply(self, step: Step) -> None:
        """Let the line take *step*."""
        self.line = step.line
        check(self.line)
        self.account = step.account or self.account
        for change in step.models:
            self.models[change.model] = become(self.models.get(change.model), VARIANT, change, self.at)
        for cancelled in step.cancel:
            self.alive = {key: job for key, job in self.alive.items() if not cancelled.matches(job)}
        for job in step.jobs:
            self.alive.setdefault(job.key, job)

    def finish(self, kind: str, scores: tuple[float, ...] = WIN) -> Step:
        """End the oldest live job of *kind* with success."""
        return self.publish(result(self.pop(kind), scores))

    def bury(self, kind: str, culprit: str | None = None, cause: str = "error") -> Step:
        """End the oldest live job of *kind* for good."""
        return self.publish(burial(self.pop(kind), culprit, cause))

    def pop(self, kind: str) -> Job:
        """Remove and return the oldest live job of *kind*."""
        key = next(key for key, job in self.alive.items() if label(job) == kind)
        return self.alive.pop(key)

    def fill(self) -> None:
        """Ask for self-play, as the daemon does."""
        if may_play(self.line, self.policy, self.at).allowed:
            live = sum(job.kind() == "play" for job in self.alive.values())
            self.line, jobs = top_up(self.line, live, self.policy)
            self.alive |= {job.key: job for job in jobs}

    def play_batch(self) -> Step:
        """Play a batch and copy it."""
        self.fill()
        event = self.publish(result(self.pop("play"))).jobs[0]
        del self.alive[event.key]
        return self.publish(result(event))

    def go(self, stage: Stage) -> "Story":
        """Go on, every job done well, until *stage*."""
        for _ in range(100):
            if self.line.stage is stage:
                return self
            if self.line.stage is Stage.COLLECTING:
                self.play_batch()
            else:
                self.finish(next(label(job) for job in self.alive.values() if label(job) != "play"))
        raise AssertionError(f"never came to {stage}")

    def lives(self) -> bool:
        """Return whether something that the line waits for is under way."""
        waits = self.line.stage not in (Stage.COLLECTING, Stage.RESTING)
        return not waits or any(is_awaited(self.line, job) for job in self.alive.values())

    def labels(self) -> set[str]:
        """Return the jobs under way, by kind or purpose."""
        return {label(job) for job in self.alive.values()}


def at(stage: Stage, rounds: int = 1) -> Story:
    """Return a line in *stage* with self-play under way and *rounds* earlier promotions, where the stage allows
    that."""
    story = Story()
    if stage is Stage.STARTING:
        return story
    story.go(Stage.VERIFYING)
    for _ in range(rounds):
        story.go(Stage.EVALUATING).go(Stage.DISTRIBUTING)
    if stage is not Stage.DISTRIBUTING:
        story.go(Stage.COLLECTING).go(stage)
    story.fill()
    return story
