"""Show the log of every node as one: a line for each job and each decision, with the traceback of each failure."""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence

from ringrift.cli.command import Command, Context, Output, Parser
from ringrift.cli.formats import timestamp
from ringrift.cli.logs import LogLine, LogReader
from ringrift.kernel.errors import printable, require_name, require_range

_POLL_SECONDS = 0.2
_LEVELS = ("debug", "info", "warning", "error", "critical")
_COUNT_MAX = 1_000_000
_TEXT_CHARACTERS_MAX = 2000


def _arguments(parser: Parser) -> None:
    parser.add_argument("--count", "-n", type=int, default=50, metavar="N", help="the newest N lines (default 50)")
    parser.add_argument("--follow", "-f", action="store_true", help="go on with new lines, until Ctrl-C")
    parser.add_argument("--node", metavar="NODE", help="only lines of this node")
    parser.add_argument("--job", metavar="JOB", help="only lines about this job: its id, or the beginning or end of it")
    parser.add_argument("--level", choices=_LEVELS, default="info", help="only this level and above (default info)")


def _selected(context: Context, lines: Sequence[LogLine]) -> Iterator[LogLine]:
    """Those of *lines* that the options select."""
    options, job = context.options, context.options.job or ""
    levels = [level.upper() for level in _LEVELS[_LEVELS.index(context.options.level) :]]
    for line in lines:
        is_job = options.job is None or (line.job and (line.job.startswith(job) or line.job.endswith(job)))
        if is_job and line.level in levels and options.node in (None, line.node):
            yield line


def _print(context: Context, line: LogLine) -> None:
    text = "\n".join([line.text, *line.error.rstrip().splitlines()])
    text = "\n    ".join(printable(row, _TEXT_CHARACTERS_MAX) for row in text.splitlines())
    context.print(line, f"{timestamp(line.time)}  {line.level:<7}  {line.node or '—':<10}  {text}")


async def _follow(context: Context, reader: LogReader) -> None:
    while True:
        await asyncio.sleep(_POLL_SECONDS)
        for line in _selected(context, reader.read()):
            _print(context, line)


def _prepare(context: Context) -> Output | None:
    """The log needs no store: it is there also where the store cannot be opened.  Raises SettingsError, UnknownName."""
    options, reader = context.options, LogReader(context.effective.home)
    require_range("--count", options.count, 0, _COUNT_MAX)
    everything = reader.read()
    if options.node is not None:
        require_name("node", options.node, {line.node for line in everything} - {""})
    lines = deque(_selected(context, everything), maxlen=options.count)
    for line in lines:
        _print(context, line)
    if options.follow:
        asyncio.run(_follow(context, reader))
    if lines or options.json:
        return None
    return Output(value=None, text=f"no such line in the log ({context.effective.home}/logs)")


COMMAND = Command(arguments=_arguments, prepare=_prepare, json_help="print JSON, one object a line", endless=True)
