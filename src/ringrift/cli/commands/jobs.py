"""List jobs; show one with its failures; print its output; cancel it or try it again."""

import asyncio
import math
from codecs import IncrementalDecoder, getincrementaldecoder
from collections import Counter
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from ringrift.cli.command import Command, Context, Output, Parser, by_verb
from ringrift.cli.formats import ago, duration, short, table, timestamp
from ringrift.cli.logs import LogReader
from ringrift.jobs import JOB_KINDS, JobQuery, decode_if_known, purpose_of
from ringrift.kernel.errors import InputError, printable, require_name, require_range
from ringrift.kernel.ids import is_blob
from ringrift.kernel.value import changed
from ringrift.store.ports import LIVE_STATES, STATES
from ringrift.work.desk import cancel_job
from ringrift.work.failures import JobFailure, latest_failures
from ringrift.work.job_facts import JobFacts, find_job, job_facts
from ringrift.work.launch.output import attempts, read_output, worker_name
from ringrift.work.retries import retry_job

_POLL_SECONDS = 0.2
_LIMIT_MAX = 100_000
_ERROR_CHARACTERS_MAX, _LINE_CHARACTERS_MAX = 60, 200
_ELSEWHERE = ("type", "variant", "priority", "node", "params")  # fields of a job that are printed on their own
_STATES = {"ready": "waits", "claimed": "running", "dead": "given up"}
_LAST_LINES = 12  # lines of its output that *show* prints


def _arguments(parser: Parser) -> None:
    verbs = "list (default); show: all about one; logs: its output; cancel: stop it; retry: try it again"
    parser.add_argument("verb", nargs="?", default="list", choices=tuple(_VERBS), help=verbs)
    job = "id of a job, or its beginning or end; logs: also worker-NODE, what is printed between jobs"
    parser.add_argument("job", nargs="?", help=job)
    parser.add_argument("--variant", metavar="NAME", help="list: only jobs of this variant")
    parser.add_argument("--kind", metavar="KIND", help=f"list: only of this kind: {', '.join(sorted(JOB_KINDS))}")
    parser.add_argument("--state", metavar="A,B", help=f"list: only in these states: {', '.join(STATES)}")
    parser.add_argument("--node", metavar="NODE", help="list: only jobs that this node runs, or that are only for it")
    parser.add_argument("--limit", type=int, default=50, metavar="N", help="list: the newest N jobs (default 50)")
    parser.add_argument("--attempt", type=int, metavar="N", help="logs: of this attempt (default: the last)")
    parser.add_argument("--follow", "-f", action="store_true", help="logs: go on with new output, until Ctrl-C")
    parser.add_argument("--reason", default="cancelled by an operator", help="cancel: reason for the log")


def _prepare(context: Context) -> None:
    options = context.options
    if options.verb != "list" and not options.job:
        raise InputError(f"argument missing:  ringrift jobs {options.verb} JOB  (ringrift jobs  lists them)")
    if options.verb == "list" and options.job:
        raise InputError(f"ringrift jobs list takes no job: try  ringrift jobs show {options.job:.40}")
    if options.kind is not None:
        require_name("kind of job", options.kind, JOB_KINDS)
    for state in _states(options.state):
        require_name("state", state, STATES)
    for name, number in (("--limit", options.limit), ("--attempt", options.attempt)):
        if number is not None:
            require_range(name, number, 1, _LIMIT_MAX)


def _states(text: str | None) -> tuple[str, ...]:
    return () if text is None else tuple(name.strip() for name in text.split(","))


async def _list(context: Context) -> Output:
    options, now = context.options, context.clock.now()
    filters = {name: getattr(options, name) for name in ("variant", "kind", "node")}
    async with context.store.read() as view:
        rows = await view.list_jobs(JobQuery(states=_states(options.state), **filters), options.limit)
        failed_on = {failure.job: failure.node for failure in await latest_failures(view)}
    names = ("id", "kind", "variant", "key", "state", "priority", "attempts", "progress", "time", "error")
    value, cells = [], []
    for row in reversed(rows):
        node, purpose = row.holder or failed_on.get(row.id), purpose_of(decode_if_known(row.kind, row.body))
        facts = {name: getattr(row, name) for name in names}
        value.append(facts | {"only_node": row.node, "purpose": purpose, "node": node})
        error = printable(row.error or "", _ERROR_CHARACTERS_MAX).partition("\n")[0]
        about = (row.id, row.kind, row.variant, purpose, row.state, node or row.node or "—")
        cells.append((*about, row.attempts, f"{row.progress:.0%}", ago(row.time, now), error))
    head = ("job", "kind", "variant", "for", "state", "node", "tries", "done", "enqueued", "error")
    return Output(value=value, text=table(head, cells, "no jobs"))


def _state_text(facts: JobFacts) -> str:
    if facts.state == "ready" and facts.pause:
        return f"waits: tried again {duration(math.ceil(facts.pause))} after its last failure"
    return _STATES.get(facts.state, facts.state)


def _failure_lines(failure: JobFailure, traceback: str, now: float) -> list[str]:
    """A failed attempt for people, with *traceback*, which says file and line."""
    cause = "" if failure.cause == "error" else f" ({failure.cause})"
    head = f"  attempt {failure.attempt} on {failure.node} failed {ago(failure.time, now)}{cause}: {failure.error}"
    return [head, *(f"      {line}" for line in traceback.rstrip().splitlines())]


def _job_lines(facts: JobFacts, now: float) -> list[str]:
    """A job for people: one line for each fact."""
    purpose, is_running = f" ({facts.purpose})" if facts.purpose else "", facts.state == "claimed"
    tries = ", ".join(f"{count} failed on {node}" for node, count in facts.tries.items())
    rows = [
        ("state", _state_text(facts)),
        ("node", facts.node or "—"),
        ("only for", facts.only_node),
        ("tries", f"{facts.attempts}{tries and f' ({tries})'}"),
        ("lease", f"{facts.lease_seconds:g} s, renewed {facts.renewals} times" if is_running else ""),
        ("progress", f"{facts.progress:.0%}" if is_running or facts.state == "done" else ""),
        ("enqueued", f"{timestamp(facts.enqueued)} ({ago(facts.enqueued, now)}), priority {facts.priority}"),
        ("parameters", _pairs(facts.parameters) or "—"),
        *(("input", f"{role}: {', '.join(map(short, blobs))}") for role, blobs in facts.inputs.items() if blobs),
        *(("output", f"{origin.kind}: {short(origin.blob)} on {origin.node}") for origin in facts.outputs),
        ("error", "" if facts.failures else facts.error),
    ]
    lines = [f"{facts.kind} {facts.variant}{purpose}, job {facts.id}"]
    lines += [f"  {name + ':':<12} {text}" for name, text in rows if text]
    for failure, later in zip_longest(facts.failures, facts.failures[1:]):
        is_same = later is not None and later.traceback == failure.traceback  # it is printed with the last of them
        lines += _failure_lines(failure, "" if is_same else failure.traceback, now)
    return lines


def _pairs(values: Mapping[str, Any]) -> str:
    """Values in one line; blobs short, and the params of the line one by one."""
    values = {name: value for name, value in values.items() if name not in _ELSEWHERE} | values.get("params", {})
    pairs = [(name, short(value) if is_blob(str(value)) else value) for name, value in values.items()]
    return ", ".join(f"{name}={value}" for name, value in pairs if value is not None)


async def _show(context: Context) -> Output:
    async with context.store.read() as view:
        facts = await job_facts(view, context.options.job)
    output = _last_output(context.settings.logs.folder, facts.id)
    history = [line for line in LogReader(context.effective.home).read() if line.job == facts.id]
    if not facts.node and history:
        facts = changed(facts, node=history[-1].node)
    lines = _job_lines(facts, context.clock.now())
    lines += [f"  log: {timestamp(line.time)}  {line.node}  {line.text}" for line in history[-_LAST_LINES:]]
    if output:
        lines += [f"  output (ringrift jobs logs {facts.id}):", *(f"    {line}" for line in output)]
    return Output(value={"facts": facts, "history": history, "output": output}, text="\n".join(lines))


def _last_output(folder: str, job: str) -> list[str]:
    """The last lines that the last attempt at *job* printed."""
    pieces = [piece for number in attempts(folder, job)[-1:] for piece in read_output(folder, job, number)]
    lines = b"".join(piece.data for piece in pieces).decode(errors="replace").splitlines()
    return [printable(line, _LINE_CHARACTERS_MAX) for line in lines[-_LAST_LINES:]]


class _Printer:
    """Prints the output of one job as it comes: a line names each attempt, if there are several."""

    def __init__(self, context: Context, name: str) -> None:
        self._context, self._name, self._only = context, name, context.options.attempt
        self._positions, self.has_printed = Counter[int](), False
        self._decoders: dict[int, IncrementalDecoder] = {}

    def print_new(self) -> None:
        """Print what has come since the last call."""
        folder = self._context.settings.logs.folder
        numbers = [number for number in attempts(folder, self._name) if self._only in (None, number)]
        for number in numbers:
            if number not in self._decoders:
                self._decoders[number] = getincrementaldecoder("utf-8")(errors="replace")
                if len(numbers) > 1:
                    self._print(number, f"--- attempt {number} ---\n")
            for missing, end, data in read_output(folder, self._name, number, self._positions[number]):
                if missing:
                    self._print(number, f"\n--- {missing:,} bytes were not kept ---\n")
                self._positions[number] = end
                self._print(number, self._decoders[number].decode(data))

    def _print(self, attempt: int, text: str) -> None:
        self.has_printed = True
        if self._context.options.json:
            self._context.print({"job": self._name, "attempt": attempt, "text": text}, "")
        else:
            print(text, end="", flush=True)


async def _logs(context: Context) -> Output | None:
    """Print the output of a job; with --follow also what comes, until the job has ended."""
    options, name = context.options, context.options.job
    is_job = not name.startswith(worker_name(""))  # what workers of a node print between two jobs
    if is_job:
        async with context.store.read() as view:
            name = (await find_job(view, name)).id
    printer = _Printer(context, name)
    while True:
        async with context.store.read() as view:
            has_ended = is_job and (await find_job(view, name)).state not in LIVE_STATES
        printer.print_new()
        if has_ended or not options.follow:
            break
        await asyncio.sleep(_POLL_SECONDS)
    if printer.has_printed or options.json:
        return None
    return Output(value=None, text=f"job {name} has printed nothing, or its output was removed (logs.jobs_bytes_max)")


async def _cancel(context: Context) -> Output:
    async with context.store.begin() as tx:
        row = await find_job(tx, context.options.job)
        await cancel_job(tx, row, context.envelopes(), context.options.reason)
    running = f"; node {row.holder} stops it within {row.seconds:g} s" if row.holder else ""
    text = f"{row.kind} {row.variant}: cancelled job {row.id}{running}; its line goes on without it"
    return Output(value={"job": row.id, "state": "cancelled", "holder": row.holder}, text=text)


async def _retry(context: Context) -> Output:
    async with context.store.begin() as tx:
        row = await find_job(tx, context.options.job)
        id = await retry_job(tx, row, context.envelopes(), context.clock.now())
    how = "is tried again now" if id == row.id else f"was {row.state}; it is enqueued again as job {id}"
    return Output(value={"job": row.id, "new": id}, text=f"{row.kind} {row.variant}: job {row.id} {how}")


_VERBS = {"list": _list, "show": _show, "logs": _logs, "cancel": _cancel, "retry": _retry}
_JSON_HELP = "print JSON; logs: one object a line"
COMMAND = Command(arguments=_arguments, prepare=_prepare, question=by_verb(_VERBS), json_help=_JSON_HELP, endless=True)
