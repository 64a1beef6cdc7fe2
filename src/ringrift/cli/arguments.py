"""Arguments: what each command takes on its line."""

import argparse
from collections.abc import Callable

Parser = argparse.ArgumentParser
EVENT_VERBS = ("tail", "show", "trace", "replay", "schema")
LETTER_VERBS = ("list", "show", "retry", "discard", "stats")


def _json(one: Parser, help: str = "print JSON") -> None:
    one.add_argument("--json", action="store_true", help=help)


def _run(one: Parser) -> None:
    one.add_argument("--minutes", type=float, metavar="M", help="end the loop in time for the proof, prove and report; "
                     "0 = no time limit, no proof (default 10 for reversi, else 0)")  # fmt: skip
    one.add_argument("--iterations", type=int, metavar="N", help="promotions for each variant, then stop; 0 = go on "
                     "(default 3 without a time limit, else 0)")  # fmt: skip
    one.add_argument("--variants", metavar="A,B", help="which variants (default: those of the settings)")
    one.add_argument("--seed", type=int, metavar="N", help="what chance is drawn from (default: another one each time; "
                     "a store keeps the one it has)")  # fmt: skip
    one.add_argument("--nodes", type=int, metavar="N", help="nodes of the local cluster (default 2 for reversi, which "
                     "share the cores, else 3)")  # fmt: skip
    one.add_argument("--plain", action="store_true", help="a line for each thing that happens, no live table")
    one.add_argument("--report", metavar="FILE", help="where the JSON report goes, and the page beside it (default: "
                     "report.json and report.html in RINGRIFT_HOME)")  # fmt: skip


def _play(one: Parser) -> None:
    one.add_argument("variant", help="e.g. square8_2p")
    one.add_argument("--seat", type=int, default=1, metavar="N", help="where you sit, from 1 on (default 1)")
    one.add_argument("--sims", type=int, default=64, metavar="N", help="simulations for each of its moves (default 64)")
    one.add_argument("--model", metavar="WHO", help="a model's file or blob, or a baseline such as uct:200 (default: "
                     "the champion of the store)")  # fmt: skip


def _events(one: Parser) -> None:
    one.add_argument("verb", choices=EVENT_VERBS)
    one.add_argument("id", nargs="?", help="show: of the event; trace: of an event or a trace")
    one.add_argument("--count", "-n", type=int, default=20, metavar="N", help="tail: how many of the last (default 20)")
    one.add_argument("--names", metavar="A,B", help="only these, e.g. model.promoted,TRAINING_COMPLETED")
    one.add_argument("--follow", "-f", action="store_true", help="tail: go on with those that come")
    one.add_argument("--after", type=int, metavar="POSITION", help="replay: from behind this position")
    one.add_argument("--since", metavar="MOMENT", help="replay: from then on, e.g. 90m, 2h, 7d or 2026-01-31T12:00")
    one.add_argument("--reader", metavar="NAME", help="replay: deliver to this reader again (default: print)")
    one.add_argument("--dry-run", action="store_true", help="replay: only say how many it would be")
    one.add_argument("--asyncapi", action="store_true", help="schema: as an AsyncAPI document")
    _json(one, "print JSON, one object a line")


def _dlq(one: Parser) -> None:
    one.add_argument("verb", choices=LETTER_VERBS)
    one.add_argument("letter", nargs="?", help="READER@POSITION, as list shows it")
    one.add_argument("--reason", default="given up by hand", help="why it is discarded")
    _json(one)


def _readers(one: Parser) -> None:
    one.add_argument("verb", choices=("list", "forget"))
    one.add_argument("reader", nargs="?", help="which one to forget")
    _json(one)


def _why(one: Parser) -> None:
    one.add_argument("variant", help="e.g. hex8_2p")
    _json(one)


def _request(one: Parser) -> None:
    one.add_argument("variant", help="e.g. hex8_2p")
    one.add_argument("stage", help="sync, export, train, evaluate or promote")
    one.add_argument("--reason", default="", help="why, for the log")
    _json(one)


def _alerts(one: Parser) -> None:
    one.add_argument("verb", nargs="?", default="list", choices=("list", "clear"))
    one.add_argument("kind", nargs="?", help="clear: of the alert, as list shows it")
    one.add_argument("subject", nargs="?", help="clear: what it is about")
    one.add_argument("--all", action="store_true", help="list: also those that are over")
    one.add_argument("--reason", default="cleared by hand", help="clear: why it is settled")
    _json(one)


ARGUMENTS: dict[str, Callable[[Parser], None]] = {
    "run": _run,
    "play": _play,
    "status": _json,
    "alerts": _alerts,
    "why": _why,
    "request": _request,
    "events": _events,
    "readers": _readers,
    "dlq": _dlq,
    "doctor": _json,
}
