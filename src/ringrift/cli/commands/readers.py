"""List the durable readers of the log and how far behind each is; forget one."""

from collections.abc import Sequence

from ringrift.cli.command import Command, Context, Output, Parser
from ringrift.cli.formats import table, timestamp
from ringrift.events.reader import Forgotten
from ringrift.kernel.errors import InputError
from ringrift.store.ports import BEHIND_MAX, ReaderRow


def _arguments(parser: Parser) -> None:
    verbs = "list; forget: delete its position and its failed deliveries"
    parser.add_argument("verb", choices=("list", "forget"), help=verbs)
    parser.add_argument("reader", nargs="?", help="forget: name of the reader")


def _as_text(readers: Sequence[ReaderRow]) -> str:
    rows = []
    for reader in readers:
        behind = reader.behind if reader.behind < BEHIND_MAX else f"{BEHIND_MAX} or more"
        since = timestamp(reader.since) if reader.since is not None else ""
        state = "lapsed" if reader.lapsed else "reading" if reader.behind else "level"
        rows.append((reader.reader, reader.position, behind, since, state))
    return table(("reader", "position", "behind", "waiting since", "state"), rows, "no readers")


async def _question(context: Context) -> Output:
    """Raises UnknownName for a reader that does not exist."""
    name = context.options.reader
    if context.options.verb == "list":
        async with context.store.read() as view:
            readers = await view.readers()
        return Output(value=readers, text=_as_text(readers))
    if not name:
        raise InputError("name the reader:  ringrift readers forget READER  (ringrift readers list  shows them)")
    async with context.store.begin() as tx:
        count = await tx.forget_reader(name)
        await tx.append([context.envelopes().make(Forgotten(reader=name), source="cli")])
    text = f"reader {name} is forgotten, with {count} failed deliveries; a new reader of that name starts anew"
    return Output(value={"reader": name, "deliveries": count}, text=text)


COMMAND = Command(arguments=_arguments, question=_question)
