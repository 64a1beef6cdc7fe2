"""List alerts: what needs attention and since when; clear one by hand."""

from ringrift.cli.command import Command, Context, Output, Parser, by_verb
from ringrift.cli.formats import ago, timestamp
from ringrift.cluster.alerts import Alert, closed_alerts, open_alerts
from ringrift.events.alert import Cleared
from ringrift.kernel.errors import InputError, require_name


def _arguments(parser: Parser) -> None:
    parser.add_argument("verb", nargs="?", default="list", choices=("list", "clear"), help="default: list")
    parser.add_argument("kind", nargs="?", help="clear: kind of the alert, as listed")
    parser.add_argument("subject", nargs="?", help="clear: subject of the alert, as listed")
    parser.add_argument("--all", action="store_true", help="list: closed alerts as well")
    parser.add_argument("--reason", default="cleared by hand", help="clear: reason for the log")


def alert_line(alert: Alert, now: float) -> str:
    """An alert for people."""
    count = f", {alert.count} times" if alert.count > 1 else ""
    until = f", cleared {timestamp(alert.until)}" if alert.until is not None else ""
    since = f"since {timestamp(alert.since)} ({ago(alert.since, now)}{count}){until}"
    return f"{alert.level}: {alert.kind} {alert.subject}: {alert.detail or 'no detail'}, {since}"


async def _show(context: Context) -> Output:
    async with context.store.read() as view:
        alerts = await open_alerts(view)
        if context.options.all:
            alerts += await closed_alerts(view)
    now = context.clock.now()
    return Output(value=alerts, text="\n".join(alert_line(alert, now) for alert in alerts) or "no alerts")


async def _clear(context: Context) -> Output:
    """Publish that an alert is over.  Raises UnknownName unless it is open."""
    kind, subject = context.options.kind, context.options.subject or ""
    if kind is None:
        raise InputError("name the alert by kind and subject, as listed:  ringrift alerts clear KIND SUBJECT")
    event = Cleared(kind=kind, subject=subject, detail=context.options.reason)
    async with context.store.begin() as tx:
        names = [f"{alert.kind} {alert.subject}" for alert in await open_alerts(tx)]
        require_name("open alert", f"{kind} {subject}", names)
        await context.publish(tx, event)
    return Output(value=event, text=f"alert {kind} {subject} will be cleared by the coordinator, at once if one runs")


COMMAND = Command(arguments=_arguments, question=by_verb({"list": _show, "clear": _clear}))
