"""List, count and show deliveries that failed (dead letters); retry or discard one."""

import msgspec

from ringrift.bus import dead_letters
from ringrift.cli.command import Command, Context, Output, Parser
from ringrift.cli.commands.events import envelope_tree
from ringrift.cli.formats import table, timestamp
from ringrift.kernel.errors import InputError, UnknownName

_LISTED_MAX = 1000


def _arguments(parser: Parser) -> None:
    verbs = "list; show: one with its event; retry: deliver again; discard: give up; stats: counts by state"
    parser.add_argument("verb", choices=("list", "show", "retry", "discard", "stats"), help=verbs)
    parser.add_argument("delivery", nargs="?", help="READER@POSITION, as listed")
    parser.add_argument("--reason", default="discarded by hand", help="discard: reason for the log")


def _parse(text: str | None) -> tuple[str, int]:
    """``pipeline@42`` as reader and position.  Raises InputError."""
    reader, _, position = (text or "").partition("@")
    if not reader or not position.isdecimal():
        but = "" if text is None else f", not {text!r:.80}"
        raise InputError(f"name a delivery as READER@POSITION, e.g. pipeline@42{but}  (ringrift dlq list  shows them)")
    return reader, int(position)


async def _show(context: Context, reader: str, position: int) -> Output:
    """One delivery with the event that it could not deliver.  Raises UnknownName."""
    async with context.store.read() as view:
        delivery = await dead_letters.find(view, reader, position)
        if delivery is None:
            raise UnknownName("delivery", f"{reader}@{position}")
        envelope = await dead_letters.event_at(view, position)
    tree = msgspec.to_builtins(delivery) | {"event": envelope and envelope_tree(envelope)}
    return Output(value=tree, text=msgspec.json.format(msgspec.json.encode(tree), indent=2).decode())


async def _question(context: Context) -> Output:
    store, verb = context.store, context.options.verb
    if verb == "list":
        async with store.read() as view:
            deliveries = await view.deliveries(("parked", "dead"), _LISTED_MAX)
        cells = []
        for row in deliveries:
            times = (timestamp(row.first), timestamp(row.last))
            cells.append((f"{row.reader}@{row.position}", row.state, row.attempts, *times, row.error))
        head = ("delivery", "state", "attempts", "first", "last", "error")
        return Output(value=deliveries, text=table(head, cells, "no failed deliveries"))
    if verb == "stats":
        counts = await dead_letters.stats(store)
        rows = [(state, counts[name]) for state, name in dead_letters.STATES.items()]
        return Output(value=counts, text=table(("state", "deliveries"), rows))
    reader, position = _parse(context.options.delivery)
    if verb == "show":
        return await _show(context, reader, position)
    if verb == "retry":
        await dead_letters.revive(store, reader, position, context.clock.now())
        state, text = "parked", "will be tried again by the node that runs its reader"
    else:
        reason = context.options.reason
        await dead_letters.discard(store, context.envelopes(), reader, position, reason, context.clock.now())
        state, text = "discarded", f"is discarded: {reason}"
    value = {"reader": reader, "position": position, "state": state}
    return Output(value=value, text=f"{reader}@{position} {text}")


COMMAND = Command(arguments=_arguments, question=_question)
