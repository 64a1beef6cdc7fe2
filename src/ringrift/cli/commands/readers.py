"""List the durable readers of the log and how far behind each is; forget one."""

from ringrift.cli.command import Command, Context, Output, Parser, by_verb
from ringrift.cli.formats import table, timestamp
from ringrift.events.reader import Forgotten
from ringrift.kernel.errors import InputError
from ringrift.store.ports import BEHIND_MAX


def _arguments(parser: Parser) -> None:
    verbs = "list; forget: delete its position and its failed deliveries"
    parser.add_argument("verb", choices=("list", "forget"), help=verbs)
    parser.add_argument("reader", nargs="?", help="forget: name of the reader")


async def _list(context: Context) -> Output:
    async with context.store.read() as view:
        readers = await view.readers()
    rows = []
    for reader in readers:
        behind = reader.behind if reader.behind < BEHIND_MAX else f"{BEHIND_MAX} or more"
        since = timestamp(reader.since) if reader.since is not None else ""
        state = "lapsed" if reader.lapsed else "reading" if reader.behind else "level"
        rows.append((reader.reader, reader.position, behind, since, state))
    head = ("reader", "position", "behind", "waiting since", "state")
    return Output(value=readers, text=table(head, rows, "no readers"))


async def _forget(context: Context) -> Output:
    name = context.options.reader
    if not name:
        raise InputError("name the reader:  ringrift readers forget READER  (ringrift readers list  shows them)")
    async with context.store.begin() as tx:
        count = await tx.forget_reader(name)
        await context.publish(tx, Forgotten(reader=name))
    text = f"reader {name} is forgotten, with {count} failed deliveries; a new reader of that name starts anew"
    return Output(value={"reader": name, "deliveries": count}, text=text)


COMMAND = Command(arguments=_arguments, question=by_verb({"list": _list, "forget": _forget}))
