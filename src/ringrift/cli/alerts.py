"""``ringrift alerts``: what is wrong and since when, what was, and clearing one by hand."""

import argparse
import json
from collections.abc import Mapping

import msgspec

from ringrift.cli.show import ago, clock
from ringrift.cli.store import answer, by_hand
from ringrift.cluster.alerts import Alert, closed_alerts, open_alerts
from ringrift.events.alert import Cleared
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import InputError, UnknownName
from ringrift.store.ports import Store


def alert_line(one: Alert, now: float) -> str:
    """An alert for people."""
    often = f", {one.count} times" if one.count > 1 else ""
    until = f", cleared {clock(one.until)}" if one.until is not None else ""
    since = f"since {clock(one.since)} ({ago(now - one.since)} ago{often}){until}"
    return f"{one.level}: {one.kind} {one.subject}: {one.detail or 'no detail'}, {since}"


async def show(store: Store, options: argparse.Namespace) -> str:
    """Every open alert, or all that are remembered."""
    async with store.read() as view:
        found = await open_alerts(view)
        if options.all:
            found += await closed_alerts(view)
    if options.json:
        return json.dumps(msgspec.to_builtins(found), indent=2)
    now = SystemClock().now()
    return "\n".join(alert_line(one, now) for one in found) or "no alerts"


async def clear(store: Store, options: argparse.Namespace, node: str) -> str:
    """Say that an alert is settled.  Raises UnknownName unless it is open."""
    if options.kind is None:
        raise InputError("which alert?  name its kind and subject, as list shows them")
    subject = options.subject or ""
    said = Cleared(kind=options.kind, subject=subject, detail=options.reason)
    async with store.begin() as tx:
        known = [f"{one.kind} {one.subject}" for one in await open_alerts(tx)]
        if f"{options.kind} {subject}" not in known:
            raise UnknownName("open alert", f"{options.kind} {subject}", known)
        await tx.append([by_hand(node).wrap(said, source="cli")])
    if options.json:
        return json.dumps(msgspec.to_builtins(said))
    return f"{options.kind} {subject} is cleared as soon as a coordinator runs"


async def do(store: Store, options: argparse.Namespace, node: str) -> str:
    """What there is, or what came of it."""
    return await clear(store, options, node) if options.verb == "clear" else await show(store, options)


def main(options: argparse.Namespace, given: Mapping[str, object]) -> int:
    """Print it; 0."""
    return answer(options, given, do)
