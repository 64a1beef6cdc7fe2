"""Request a stage of a variant out of turn and print the verdict of its gate."""

from ringrift.cli.command import EXIT_FAILED, Command, Context, Output, Parser
from ringrift.cli.formats import verdict_line
from ringrift.events.pipeline import Requested
from ringrift.kernel.errors import require_name
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.line import require_line
from ringrift.pipeline.requests import ANSWER_SECONDS_MAX, STAGES, wait_for_answer


def _arguments(parser: Parser) -> None:
    parser.add_argument("variant", help="e.g. hex8_2p")
    parser.add_argument("stage", help="sync, export, train, evaluate or promote")
    parser.add_argument("--reason", default="", help="reason for the log")


def _prepare(context: Context) -> None:
    require_name("stage", context.options.stage, STAGES)


def _as_text(verdict: Verdict | None, request: Requested, now: float) -> str:
    if verdict is not None:
        return f"{request.variant}: {verdict_line(verdict, now, 'refused')}"
    remedy = f'start a coordinator with "ringrift run", then see  ringrift why {request.variant}'
    late = f"no coordinator has answered within {ANSWER_SECONDS_MAX:g} s. The request is stored: {remedy}"
    return f"requested {request.stage} of {request.variant}; {late}"


async def _question(context: Context) -> Output:
    """Exit code 1 unless the gate is open.  Raises UnknownName for a variant without a line."""
    options = context.options
    request = Requested(variant=options.variant, stage=options.stage, reason=options.reason)
    async with context.store.begin() as tx:
        await require_line(tx, request.variant)
        envelope = await context.publish(tx, request)
    answer = await wait_for_answer(context.store, envelope.id, request.variant, context.clock)
    verdict = None if answer is None else answer[0]
    code = 0 if verdict is not None and verdict.allowed else EXIT_FAILED
    text = _as_text(verdict, request, context.clock.now())
    return Output(value={"request": request, "verdict": verdict}, text=text, code=code)


COMMAND = Command(arguments=_arguments, prepare=_prepare, question=_question)
