"""Arguments: what each command takes on its line."""

import argparse
from collections.abc import Callable

Parser = argparse.ArgumentParser
EVENT_VERBS = ("tail", "show", "trace", "replay", "schema")
MODEL_VERBS = ("list", "show", "verify", "promote", "rollback", "import")
GATE_VERBS = ("simulate", "budget")
DAEMON_VERBS = ("start", "stop", "restart", "clear")
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


def _daemons(one: Parser) -> None:
    one.add_argument("verb", nargs="?", default="list", choices=("list", *DAEMON_VERBS))
    one.add_argument("name", nargs="?", help="which daemon, except to list")
    one.add_argument("--node", metavar="ID", help="of this node (default: list those of every node; an order needs it "
                     "where several have the daemon)")  # fmt: skip
    _json(one)


def _health(one: Parser) -> None:
    probe = one.add_mutually_exclusive_group()
    probe.add_argument("--live", action="store_true", help="only whether it makes sense to let it go on")
    probe.add_argument("--ready", action="store_true", help="only whether everything critical is known to work")
    one.add_argument("--node", metavar="ID", help="only of this node")
    _json(one)


def _models(one: Parser) -> None:
    one.add_argument("verb", choices=MODEL_VERBS)
    one.add_argument("name", nargs="?", help="show, verify, promote: the beginning of a model's hash, or a variant for "
                     "its champion; rollback: the variant; import: the file")  # fmt: skip
    one.add_argument("--variant", metavar="NAME", help="list: only of this one; promote, import: for this one")
    one.add_argument("--to", metavar="MODEL", help="rollback: to which earlier champion (default: the one before)")
    one.add_argument("--reason", default="by hand", help="rollback: why, for the log")
    _json(one)


def _promotions(one: Parser) -> None:
    one.add_argument("--variant", metavar="NAME", help="only of this one, e.g. hex8_2p")
    one.add_argument("--without", metavar="node=NAME", help="also what the gate would have said without this node")
    _json(one)


def _elo(one: Parser) -> None:
    one.add_argument("--variant", metavar="NAME", help="only of this one, e.g. hex8_2p")
    one.add_argument("--target", type=float, metavar="ELO", help="also when it will be that strong, if it goes on so")
    one.add_argument("--watch", action="store_true", help="show it again whenever it changes, until Ctrl-C")
    _json(one)


def _match(one: Parser) -> None:
    one.add_argument("one", help="the beginning of a model's hash, a variant for its champion, or a baseline")
    one.add_argument("other", help="likewise")
    one.add_argument("--variant", metavar="NAME", help="which game, where the models do not say")
    one.add_argument("--blocks", type=int, default=32, metavar="N", help="openings, each from every seat (default 32)")
    _json(one)


def _lineage(one: Parser) -> None:
    one.add_argument("model", help="the beginning of its name, or a variant for its champion")
    one.add_argument("--full", action="store_true", help="list every batch and every parent")
    _json(one)


def _blast(one: Parser) -> None:
    one.add_argument("--node", required=True, metavar="NAME", help="whose games")
    one.add_argument("--since", metavar="MOMENT", help="played from then on, e.g. 90m, 2h, 7d or 2026-01-31T12:00")
    one.add_argument("--until", metavar="MOMENT", help="played before then, likewise")
    one.add_argument("--variant", metavar="NAME", help="only of this one, e.g. hex8_2p")
    _json(one)


def _quarantine(one: Parser) -> None:
    one.add_argument("verb", nargs="?", default="list", choices=("list", "add", "release"))
    one.add_argument("node", nargs="?", help="add, release: which node")
    one.add_argument("--reason", default="shut out by hand", help="add: why its results are not believed")
    _json(one)


def _gate(one: Parser) -> None:
    one.add_argument("verb", choices=GATE_VERBS)
    one.add_argument("--kind", metavar="KIND", help="improvement, non-regression or anti-disaster (default: "
                     "policy.gate of the settings)")  # fmt: skip
    one.add_argument("--elo-0", type=float, metavar="ELO", help="H0, which passes with the chance alpha")
    one.add_argument("--elo-1", type=float, metavar="ELO", help="H1, which fails with the chance beta")
    one.add_argument("--alpha", type=float, metavar="P", help="false passes")
    one.add_argument("--beta", type=float, metavar="P", help="false rejections")
    one.add_argument("--blocks-min", type=int, metavar="N", help="no decision before")
    one.add_argument("--blocks-max", type=int, metavar="N", help="undecided there is rejected")
    one.add_argument("--players", type=int, default=2, metavar="N", help="2, 3 or 4 (default 2)")
    one.add_argument("--trials", type=int, default=4000, metavar="N", help="simulate: matches for each true difference "
                     "(default 4000)")  # fmt: skip
    one.add_argument("--true", metavar="ELO,ELO", help="simulate: true differences, e.g. --true=-20,0 (default: "
                     "H0 and H1)")  # fmt: skip
    one.add_argument("--in-flight", type=int, default=1, metavar="N", help="simulate: blocks at once (default 1)")
    one.add_argument("--slow", type=float, default=1.0, metavar="R", help="simulate: how much longer a loss takes "
                     "than a win (default 1)")  # fmt: skip
    one.add_argument("--order", choices=("dispatch", "arrival"), default="dispatch", help="simulate: what decides "
                     "(default dispatch; arrival only shows what it does)")  # fmt: skip
    one.add_argument("--wins-only", action="store_true", help="simulate: single games from a random seat, only wins "
                     "count")  # fmt: skip
    one.add_argument("--tests", type=int, default=2000, metavar="N", help="budget: candidate tests of a run (default "
                     "2000)")  # fmt: skip
    one.add_argument("--null", default="0.5,0.8,0.95", metavar="P,P", help="budget: shares of candidates that are only "
                     "equal (default 0.5,0.8,0.95)")  # fmt: skip
    one.add_argument("--share", type=float, metavar="P", help="budget: promotions that may be false (default 0.1)")
    one.add_argument("--runs", type=int, default=8, metavar="N", help="budget: runs for each share (default 8)")
    one.add_argument("--open", type=int, default=12, metavar="N", help="budget: tests at once (default 12)")
    one.add_argument("--seed", type=int, default=1, metavar="N", help="what chance is drawn from (default 1)")
    _json(one)


ARGUMENTS: dict[str, Callable[[Parser], None]] = {
    "run": _run,
    "play": _play,
    "status": _json,
    "daemons": _daemons,
    "health": _health,
    "alerts": _alerts,
    "why": _why,
    "models": _models,
    "promotions": _promotions,
    "elo": _elo,
    "match": _match,
    "gate": _gate,
    "lineage": _lineage,
    "blast": _blast,
    "quarantine": _quarantine,
    "request": _request,
    "events": _events,
    "readers": _readers,
    "dlq": _dlq,
    "doctor": _json,
}
