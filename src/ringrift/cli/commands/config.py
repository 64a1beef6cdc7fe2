"""Show the settings that a run would use and their origins, explain one, or compare them with those of a run."""

import asyncio
import json
from collections.abc import Sequence

from ringrift.cli.command import Command, Context, Output, Parser, open_existing
from ringrift.cli.formats import duration, table, timestamp
from ringrift.cli.plan_view import describe_machine, difference, look_at_plan, settings_of_plan
from ringrift.cli.runs import RUNS, RunRecord
from ringrift.cli.setting_notes import SettingNote, param_notes, setting_notes
from ringrift.environment import InForce
from ringrift.kernel.errors import InputError, UnknownName

_VERBS = {
    "show": "show [VARIANT]: what `ringrift run` would use here and now",
    "explain": "explain KEY: meaning, unit, range, default and when to change it",
    "diff": "diff RUN [RUN]: what differs from now, or from the other run; RUN is an id or `last`",
    "runs": "runs: every run in this home, with its id",
}
_NAMES_MAX = {"show": 1, "explain": 1, "diff": 2, "runs": 0}
_LAST = "last"


def _arguments(parser: Parser) -> None:
    parser.add_argument("verb", nargs="?", choices=tuple(_VERBS), default="show", help="; ".join(_VERBS.values()))
    parser.add_argument("names", nargs="*", metavar="NAME", help="a variant, a setting, or one or two runs")
    parser.add_argument("--effective", action="store_true", help="show: all settings, not only those that differ")
    parser.add_argument("--origin", action="store_true", help="show: where each value comes from")


def _show(context: Context, names: Sequence[str]) -> Output:
    """The settings of the plan of a run; without ``--effective`` those that differ from their defaults."""
    plan, options = look_at_plan(context, names[0] if names else None), context.options
    settings, machine = settings_of_plan(plan), describe_machine()
    rows = {key: item for key, item in settings.items() if options.effective or item.origin != "default"}
    limit = "no time limit" if plan.loop_seconds is None else f"{plan.loop_seconds / 60:.1f} minutes"
    head = f"workload {plan.settings.work.workload}, {len(plan.nodes)} nodes, {limit}; "
    head += ", ".join(f"{name} {value}" for name, value in machine.items())
    columns = ("setting", "value", "from") if options.origin else ("setting", "value")
    body = table(columns, [(key, _text(item), item.origin)[: len(columns)] for key, item in rows.items()])
    rest = "" if options.effective else f"\n\n{len(settings) - len(rows)} more have their defaults (--effective)"
    nodes = [{"id": node.id, "profile": node.profile} for node in plan.nodes]
    value = {"workload": plan.settings.work.workload, "nodes": nodes, "machine": machine, "settings": rows}
    return Output(value=value, text="\n".join([head, *plan.notes, "", f"{body}{rest}"]))


def _explain(context: Context, names: Sequence[str]) -> Output:
    """A setting, or a job parameter of the workload that a run would use."""
    if not names:
        raise InputError("name the setting:  ringrift config explain KEY  (see  ringrift config show --effective)")
    notes = setting_notes()
    if names[0] not in notes:
        notes |= param_notes(look_at_plan(context).chosen.workload)
    if (note := notes.get(names[0])) is None:
        raise UnknownName("setting", names[0], notes)
    return Output(value=note, text=_as_text(note))


def _as_text(note: SettingNote) -> str:
    titles = ("", "type: ", "unit: ", "range: ", "default: ", "change it: ")
    default = json.dumps(note.default, default=list)
    texts = (note.meaning, note.kind, note.unit, note.range, default, note.change)
    return "\n".join([note.key, *(f"  {title}{text}" for title, text in zip(titles, texts, strict=True) if text)])


async def _read_runs(context: Context) -> list[RunRecord]:
    async with open_existing(context.settings.store) as store, store.read() as view:
        return await RUNS.all(view)


def _runs(context: Context, names: Sequence[str]) -> Output:
    runs = asyncio.run(_read_runs(context))
    lasted = [duration(run.seconds) if run.ended else "—" for run in runs]
    rows = [
        (r.id, timestamp(r.began), text, r.seed, ", ".join(r.variants)) for r, text in zip(runs, lasted, strict=True)
    ]
    return Output(value=runs, text=table(("run", "began", "lasted", "seed", "variants"), rows, "no runs yet"))


def _diff(context: Context, names: Sequence[str]) -> Output:
    """What differs between a run and now, or between two runs."""
    if not names:
        raise InputError("name the run:  ringrift config diff RUN  (ringrift config runs  lists them)")
    runs = asyncio.run(_read_runs(context))
    by_id = {run.id: run for run in runs} | ({_LAST: runs[-1]} if runs else {})
    for name in names:
        if name not in by_id:
            raise UnknownName("run", name, by_id)
    first, titles = by_id[names[0]].settings, [*names, "now"][:2]
    second = by_id[names[1]].settings if len(names) > 1 else settings_of_plan(look_at_plan(context))
    rows = difference(first, second)
    head = ("setting", titles[0], "from", titles[1], "from")
    cells = [(key, _text(a), a.origin, _text(b), b.origin) for key, (a, b) in rows.items()]
    value = {key: {"before": a, "after": b} for key, (a, b) in rows.items()}
    return Output(value=value, text=table(head, cells, f"no setting differs between {titles[0]} and {titles[1]}"))


def _text(item: InForce) -> str:
    return json.dumps(item.value) if item.value is not None else "—"


def _prepare(context: Context) -> Output:
    verb, names = context.options.verb, context.options.names
    if len(names) > _NAMES_MAX[verb]:
        raise InputError(f"too many names: {' '.join(names):.80}; write  ringrift config {_VERBS[verb]}")
    return {"show": _show, "explain": _explain, "diff": _diff, "runs": _runs}[verb](context, names)


COMMAND = Command(arguments=_arguments, prepare=_prepare)
