"""Feedback: how results and ratings of a line change the way it is steered.

Velocity is the slope of the champions' ratings with its bounds; a trend is published when those bounds name another one
than before.  A plateau is a row of rejections as long as the policy allows; it is published when it begins.
"""

from ringrift.events import evaluation, model
from ringrift.events.base import Event
from ringrift.jobs import Export, Train
from ringrift.kernel.settings import LEAD_MAX
from ringrift.kernel.value import changed
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline import signals
from ringrift.pipeline.exclusion import is_excluded
from ringrift.pipeline.line import Line
from ringrift.pipeline.ratings import with_ratings
from ringrift.pipeline.signals import Feedback
from ringrift.pipeline.step import Context, Step, with_more


def expire_effects(line: Line, event: Event, context: Context) -> Step:
    """Forget the effects whose time is over."""
    effects = context.feedback.effects
    active = signals.active_effects(effects, context.at)
    if active == effects or is_excluded(event, context):
        return context.step
    verdicts = tuple(signals.expiry_verdict(effect, context.at) for effect in effects if effect not in active)
    return with_more(context.step, feedback=changed(context.feedback, effects=active), verdicts=verdicts)


def set_lead(line: Line, event: Event, context: Context) -> Step:
    """Put the Export and Train jobs of an urgent line before those of other lines, with the reason."""
    jobs, at = context.step.jobs, context.at
    # The first job of a new line has no rival of its own.
    if line.is_new or not any(isinstance(job, Export | Train) for job in jobs):
        return context.step
    lead = signals.steer(line, context.feedback, context.policy, at).lead
    jobs = tuple(changed(job, priority=job.priority + lead) if isinstance(job, Export | Train) else job for job in jobs)
    rule = "priority of its training, raised by waiting games, a sure gain or a lost champion"
    verdict = Verdict(gate="feedback urgency", allowed=lead > 0, rule=rule, value=lead, limit=LEAD_MAX, since=at)
    return with_more(changed(context.step, jobs=jobs), verdicts=(verdict,))


def update_feedback(line: Line, event: Event, context: Context) -> Step:
    """Let what was decided or computed about *line* have its effect on how the line is steered."""
    after, at = context.step.feedback or context.feedback, context.at
    events: tuple[Event, ...] = ()
    match event:
        case evaluation.Finished():
            after, events = _finished(after, event, context)
            signal = signals.plateau(after.rejections, context.policy)
        case evaluation.Rated():
            after, events = _rated(after, event, context)
            signal = signals.stall(after.velocity)
        case model.RolledBack():
            signal = signals.regression(event.evidence, line.players)
        case _:
            return context.step
    after = changed(after, effects=signals.apply_signal(after.effects, signal, at))
    verdicts = (signals.signal_verdict(signal, after.effects, at),)
    return with_more(context.step, feedback=after, events=events, verdicts=verdicts)


def _finished(before: Feedback, event: evaluation.Finished, context: Context) -> tuple[Feedback, tuple[Event, ...]]:
    """Feedback after a test of a candidate; a plateau is published when it begins."""
    if event.promoted:
        return changed(before, rejections=0, since=context.at, plateaued=False), ()
    since = before.since if before.rejections else context.at
    after = changed(before, rejections=before.rejections + 1, since=since)
    if before.plateaued or not signals.plateau(after.rejections, context.policy).certain:
        return after, ()
    plateau = evaluation.Plateaued(variant=before.variant, rejections=after.rejections, since=since)
    return changed(after, plateaued=True), (plateau,)


def _rated(before: Feedback, event: evaluation.Rated, context: Context) -> tuple[Feedback, tuple[Event, ...]]:
    periods = with_ratings(context.ratings, event, context.at).periods
    pace = signals.velocity_of(periods, context.at)
    after, trend = changed(before, velocity=pace), signals.trend(pace)
    if pace is None or trend == before.trend:
        return after, ()
    shared = {"variant": before.variant, "trend": trend, "before": before.trend}
    champions = min(len(periods), signals.PERIODS_RECENT)
    change = evaluation.VelocityChanged(elo_per_hour=pace.value, champions=champions, **shared)
    return changed(after, trend=trend), (change,)
