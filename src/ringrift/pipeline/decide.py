"""Decide: the one list of everything that decides about a line.

    exclude          results of a quarantined node count for nothing; its blocks are played again
    expire_effects   feedback whose time is over is forgotten
    advance          the machine: what follows from what
    watch_win_rates  a champion that does worse than the one before it is reviewed
    set_lead         Export and Train jobs of an urgent line go first
    update_feedback  matches and ratings change how the line is steered
    hold             while auto-trigger is off, new jobs wait for an operator
    restrain         while their queue is full, exports and matches wait

Each is a pure function ``(line, event, context) → Step``: it returns ``context.step``, which the ones before it have
made, with what it adds or takes away.  *line* is the line before the event.
"""

from collections.abc import Callable

from ringrift.events.base import Event
from ringrift.kernel.value import changed
from ringrift.pipeline import exclusion, feedback, machine, queues, requests, review
from ringrift.pipeline.line import Line
from ringrift.pipeline.step import Context, Step

_DECIDERS: tuple[Callable[[Line, Event, Context], Step], ...] = (
    *(exclusion.exclude, feedback.expire_effects, machine.advance, review.watch_win_rates),
    *(feedback.set_lead, feedback.update_feedback, requests.hold, queues.restrain),
)


def decide(line: Line, event: Event, context: Context) -> Step:
    """Decide what *line* does after *event*: every decider in turn."""
    for decider in _DECIDERS:
        context = changed(context, step=decider(line, event, context))
    return context.step
