"""Story: a line with the jobs that are alive for it, moved by hand from event to event and checked after each."""

import hashlib

from ringrift.evaluation.budget import opened
from ringrift.events import data, evaluation, model, pipeline, selfplay, training, work
from ringrift.events.base import Event
from ringrift.jobs import Distribute, Export, Job, Match, Play, Sync, Train, Verify
from ringrift.kernel.settings import Budget, Gate, Policy
from ringrift.pipeline.fill import may_play, top_up
from ringrift.pipeline.line import Line, Stage, check
from ringrift.pipeline.machine import advance, open_line
from ringrift.pipeline.models import Model, become
from ringrift.pipeline.step import Step

VARIANT = "hex8_2p"
POLICY = Policy(
    variants=(VARIANT,), games_per_batch=10, games_per_export=20, window_batches_max=3, play_jobs_open=2,
    blocks_per_job=2, match_jobs_open=2, gate=Gate(elo_0=0.0, elo_1=200.0, blocks_min=4, blocks_max=8),
    budget=Budget(share=0.5, start=1.0), review_promotions=0,
)  # fmt: skip
WIN, LOSS, EVEN = (1.0, 1.0), (0.0, 0.0), (0.5, 0.5)


def blob(name: str) -> str:
    """A blob id that stands for *name*."""
    return hashlib.sha256(name.encode()).hexdigest()


def result(job: Job, scores: tuple[float, ...] = WIN) -> Event:
    """What is said when *job* ends well; the same job always makes the same bytes."""
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
            blocks = [evaluation.Played(number=job.first + n, scores=scores) for n in range(job.count)]
            return evaluation.BlocksPlayed(
                variant=VARIANT, candidate=job.candidate, champion=job.opponent, blocks=tuple(blocks), node="n",
                seed=job.seed,
            )  # fmt: skip
        case Distribute():
            return model.Distributed(variant=VARIANT, model=job.model, nodes=("n",))
    raise AssertionError(job)


def burial(job: Job, culprit: str | None = None) -> work.Buried:
    """What is said when *job* will never be done."""
    return work.Buried(
        variant=VARIANT, job="j", kind=job.kind(), key=job.key, error="exit 13", attempts=4, blob=culprit
    )


def waits_for(line: Line) -> set[str]:
    """The keys of jobs of which at least one must be alive, or the line stands still for ever."""
    candidate = line.candidate
    match line.stage:
        case Stage.STARTING | Stage.TRAINING:
            return {f"train:{VARIANT}:"}
        case Stage.EXPORTING:
            return {f"export:{VARIANT}:"}
        case Stage.VERIFYING:
            assert candidate is not None
            copying = set() if candidate.copied else {f"sync:{VARIANT}:{candidate.model}"}
            return copying or {f"verify:{VARIANT}:{candidate.model}"}
        case Stage.EVALUATING:
            assert candidate is not None
            return {f"match:{VARIANT}:{candidate.model}:"}
        case Stage.DISTRIBUTING:
            return {f"distribute:{VARIANT}:{line.champion}"}
    return set()


class Story:
    """One line from its opening on."""

    def __init__(self, policy: Policy = POLICY) -> None:
        self.policy, self.at = policy, 0.0
        self.alive: dict[str, Job] = {}
        self.told: list[Event] = []
        self.models: dict[str, Model] = {}
        self.account = opened(policy.budget)
        step = open_line(pipeline.Opened(variant=VARIANT, workload="fake"), policy, self.at)
        self.line = step.line
        self.take(step)

    def tell(self, event: Event) -> Step:
        """Let *event* happen."""
        self.at += 1.0
        step = advance(self.line, event, self.policy, self.at, self.account)
        self.told.append(event)
        self.line = step.line
        self.take(step)
        return step

    def take(self, step: Step) -> None:
        """Let *step* be taken."""
        check(self.line)
        self.account = step.account or self.account
        for change in step.models:
            known = self.models.get(change.model)
            self.models[change.model] = become(known, VARIANT, change, self.at)
        self.alive = {key: job for key, job in self.alive.items() if not key.startswith(step.cancel)}
        for job in step.jobs:
            self.alive.setdefault(job.key, job)

    def finish(self, kind: str, scores: tuple[float, ...] = WIN) -> Step:
        """End the oldest live job of *kind* well."""
        return self.tell(result(self.pop(kind), scores))

    def bury(self, kind: str, culprit: str | None = None) -> Step:
        """End the oldest live job of *kind* for good."""
        return self.tell(burial(self.pop(kind), culprit))

    def pop(self, kind: str) -> Job:
        """The oldest live job of *kind*, which is not alive any more."""
        key = next(key for key in self.alive if key.startswith(f"{kind}:"))
        return self.alive.pop(key)

    def fill(self) -> None:
        """Ask for self-play, as the daemon does."""
        if may_play(self.line, self.policy, self.at).allowed:
            under_way = sum(job.kind() == "play" for job in self.alive.values())
            self.line, jobs = top_up(self.line, under_way, self.policy)
            self.alive |= {job.key: job for job in jobs}

    def play_batch(self) -> Step:
        """Play a batch and copy it."""
        self.fill()
        event = self.tell(result(self.pop("play"))).jobs[0]
        del self.alive[event.key]
        return self.tell(result(event))

    def go(self, stage: Stage) -> "Story":
        """Go on, every job done well, until *stage*."""
        for _ in range(100):
            if self.line.stage is stage:
                return self
            if self.line.stage is Stage.COLLECTING:
                self.play_batch()
            else:
                self.finish(next(key for key in self.alive if not key.startswith("play:")).split(":")[0])
        raise AssertionError(f"never came to {stage}")

    def lives(self) -> bool:
        """Whether something that the line waits for is under way."""
        return all(any(key.startswith(wanted) for key in self.alive) for wanted in waits_for(self.line))


def at(stage: Stage, rounds: int = 1) -> Story:
    """A line in *stage* with self-play under way and *rounds* promotions behind it, where the stage allows that."""
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
