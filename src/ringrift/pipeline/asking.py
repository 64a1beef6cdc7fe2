"""Asking: a stage is asked for out of turn, and the pipeline's answer to exactly that request is waited for."""

from collections.abc import Sequence

import msgspec

from ringrift.events.base import Envelope
from ringrift.events.pipeline import Requested
from ringrift.kernel.clock import Clock
from ringrift.kernel.value import Value
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.line import Line
from ringrift.pipeline.records import load
from ringrift.pipeline.request import GATE
from ringrift.pipeline.step import Step
from ringrift.store.ports import Put, Reads, Store, Tx

KIND = "answer"
ANSWERS_MAX = 64
"""Answers that are kept for each variant: who asked reads the one to its own request within seconds."""
ANSWER_SECONDS_MAX = 10.0
LOOK_SECONDS = 0.1


class Answer(Value):
    """What the gate said to one request."""

    request: str
    """The id of the event."""
    verdict: Verdict


class Told(Value):
    """The answer to a request, and the line as it was then or a moment later."""

    verdict: Verdict
    line: Line


async def keep_answer(tx: Tx, envelope: Envelope, event: Requested, step: Step) -> None:
    """Write down what *step* answers to the request *event*."""
    verdict = next(said for said in step.verdicts if said.gate == GATE)
    kept = [*await answers_of(tx, event.variant), Answer(request=envelope.id, verdict=verdict)]
    await tx.put([Put(kind=KIND, id=event.variant, body=msgspec.json.encode(kept[-ANSWERS_MAX:]))])


async def answers_of(view: Reads, variant: str) -> Sequence[Answer]:
    """The last answers to requests for stages of *variant*, oldest first."""
    body = (await view.get(KIND, [variant])).get(variant)
    return [] if body is None else msgspec.json.decode(body, type=list[Answer])


async def answer(store: Store, request: str, variant: str, clock: Clock) -> Told | None:
    """What the gate says to the *request* of this id, once the pipeline has read it; None if nobody has in time."""
    end = clock.tick() + ANSWER_SECONDS_MAX
    while clock.tick() < end:
        position = store.position
        async with store.read() as view:
            found = [one.verdict for one in await answers_of(view, variant) if one.request == request]
            line = await load(view, variant)
        if found and line is not None:
            return Told(verdict=found[0], line=line)
        await store.wait(position, LOOK_SECONDS)
    return None
