"""List, show, verify and import models; nominate one for promotion; roll back to an earlier champion."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ringrift.blobs.folder import Folder
from ringrift.cli.command import EXIT_FAILED, Command, Context, Output, Parser, by_verb
from ringrift.cli.commands.promotions import DecisionView, elo_gain, evidence_text, view_decision
from ringrift.cli.follow_jobs import JobsResult, follow
from ringrift.cli.formats import ago, short, signed, table, timestamp, verdict_line
from ringrift.cluster.roster import NODES, NodeRecord
from ringrift.events import model
from ringrift.kernel.errors import InputError, WorkError
from ringrift.pipeline import operator
from ringrift.pipeline.inbox import read_model
from ringrift.pipeline.line import DECISIONS, Line, Stage, require_line
from ringrift.pipeline.models import MODEL, MODELS, ModelMatch, State, is_imported, resolve
from ringrift.pipeline.records import evidence_of
from ringrift.store.ports import Reads
from ringrift.sync import ledger

_IMPORTED = "imported"
_ORIGINS_MAX = 10_000


def _arguments(parser: Parser) -> None:
    verbs = "verify: check the weights; promote: nominate as a candidate; rollback: restore a champion; import: a file"
    parser.add_argument("verb", choices=tuple(_VERBS), help=verbs)
    target = "show, verify, promote: first digits of a model's hash, or a variant for its champion"
    parser.add_argument("name", nargs="?", help=f"{target}; rollback: the variant; import: the file")
    parser.add_argument("--variant", metavar="NAME", help="list: only this variant; promote, import: for this variant")
    parser.add_argument("--to", metavar="MODEL", help="rollback: an earlier champion (default: the one before)")
    parser.add_argument("--reason", default="by hand", help="rollback: reason for the log")


def _row(variant: str, model: str | None, generation: int | None, state: str, since: float) -> dict[str, Any]:
    """A model that was not tested; one that is being trained has no weights yet."""
    row = {"variant": variant, "model": model, "generation": generation, "state": state, "since": since}
    return row | {"elo": None, "blocks": 0}


async def _models_of(view: Reads, line: Line) -> list[dict[str, Any]]:
    variant, rows = line.variant, []
    decisions = await DECISIONS.all(view, "variant", variant)
    tests = {decision.model: decision for decision in decisions if decision.kind == "promotion"}
    models = {record.model: record for record in await MODELS.all(view, "variant", variant)}
    for blob, record in models.items():
        row = _row(variant, blob, record.generation, record.state, record.since)
        if (test := tests.get(blob)) and test.evidence:  # Elo over the champion that it was tested against
            row |= {"elo": elo_gain(test, line.players), "blocks": test.evidence.blocks}
        rows.append(row)
    origins = await view.list_origins(MODEL, _ORIGINS_MAX, variant=variant)
    imported = {origin.blob: origin.time for origin in origins if is_imported(origin) and origin.blob not in models}
    rows += [_row(variant, blob, None, _IMPORTED, time) for blob, time in imported.items()]
    if line.stage in (Stage.STARTING, Stage.TRAINING):
        rows.append(_row(variant, None, line.generation + 1, State.TRAINING, line.since))
    return rows


async def _view_model(view: Reads, match: ModelMatch) -> dict[str, Any]:
    """The model *match* with its history, the decisions about it and its files."""
    line, model, record = await require_line(view, match.variant), match.model, match.record
    decisions = await DECISIONS.all(view, "variant", match.variant)
    own = [decision for decision in decisions if model in (decision.model, decision.previous)]
    nodes = await NODES.get_many(view, sorted(await ledger.holders(view, model)))
    files = [{"node": id, "path": str(Folder(node.address).path(model))} for id, node in nodes.items()]
    views = [view_decision(item, await evidence_of(view, item), line.players) for item in own]
    state = record.state if record else _IMPORTED if match.imported else "trained"
    start = {"variant": match.variant, "model": model, "generation": record and record.generation, "state": state}
    history = {"steps": record.steps if record else (), "decisions": views, "files": files}
    return {**start, "champion": line.champion == model, **history}


def _models_text(rows: Sequence[Mapping[str, Any]], now: float) -> str:
    cells = []
    for row in rows:
        generation = "—" if row["generation"] is None else row["generation"]
        start = (row["variant"], generation, row["state"], ago(row["since"], now), short(row["model"]))
        cells.append((*start, signed(row["elo"]), row["blocks"] or "—"))
    head = ("variant", "generation", "state", "since", "model", "Elo", "blocks")
    return table(head, cells, "no models yet")


def _model_text(model: Mapping[str, Any]) -> str:
    generation = "" if model["generation"] is None else f", generation {model['generation']}"
    lines = [f"model {model['model']}", f"  {model['variant']}{generation}, {model['state']}"]
    if model["steps"]:
        lines.append("history  " + ", ".join(f"{state} {timestamp(since)}" for state, since in model["steps"]))
    lines += [line for decision in model["decisions"] for line in _decision_text(decision, model["model"])]
    lines += [f"file  {file['node']}: {file['path']}" for file in model["files"]] or ["file  no copy is recorded"]
    return "\n".join(lines)


def _decision_text(view: DecisionView, model: str) -> list[str]:
    decision = view.decision
    outcome = "promoted" if decision.promoted else "rejected"
    if decision.kind == "rollback":
        outcome = "restored" if decision.model == model else "rolled back"
    elif decision.model != model:
        outcome = f"{'replaced by' if decision.promoted else 'defended against'} {short(decision.model)}"
    lines = [f"{timestamp(decision.time)}  {outcome}: {decision.reason}"]
    if decision.model == model and decision.previous is not None:
        lines.append(f"  champion before: {decision.previous}")
    return [*lines, *(f"  {text}" for text in evidence_text(view))]


async def _list(context: Context) -> Output:
    async with context.store.read() as view:
        rows = [row for line in await context.lines(view) for row in await _models_of(view, line)]
    return Output(value=rows, text=_models_text(rows, context.clock.now()))


async def _show(context: Context) -> Output:
    async with context.store.read() as view:
        model_view = await _view_model(view, await resolve(view, context.options.name, context.options.variant))
    return Output(value=model_view, text=_model_text(model_view))


async def _rollback(context: Context) -> Output:
    options, policy, actor = context.options, context.settings.policy, _actor(context)
    async with context.store.begin() as tx:
        step = await operator.roll_back(tx, options.name, options.to, options.reason, policy=policy, actor=actor)
    [event] = [event for event in step.events if isinstance(event, model.RolledBack)]
    rejected = [change.model for change in step.models if change.state == "rejected"]
    target = f"{short(event.to)} of generation {event.generation}"
    text = f"{event.variant}: rolled back from {short(event.model)} to {target}; every node gets it now"
    if rejected:
        text += f"\ncandidate {short(rejected[0])} is rejected: it was tested against the champion that is gone"
    return Output(value={"rolled_back": event, "rejected": rejected}, text=text)


async def _promote(context: Context) -> Output:
    """Nominate a model as a candidate; only the gate promotes."""
    async with context.store.begin() as tx:
        match = await resolve(tx, context.options.name, context.options.variant)
        verdict, step = await operator.nominate(tx, match, policy=context.settings.policy, actor=_actor(context))
    value = {"model": match.model, "verdict": verdict}
    if step is None:
        text = f"{match.variant}: {verdict_line(verdict, context.clock.now(), 'refused')}"
        return Output(value=value, text=text, code=EXIT_FAILED)
    text = f"{short(match.model)} is now a candidate of {match.variant}: it is copied and verified, then the gate "
    text += f"decides by a match against champion {short(step.line.champion)} (progress: ringrift why {match.variant})"
    return Output(value=value, text=text)


async def _verify(context: Context) -> Output:
    async with context.store.begin() as tx:
        match = await resolve(tx, context.options.name, context.options.variant)
        job, after = await operator.verify_model(tx, match, actor=_actor(context))
    result, title = await follow(context, [job], after), f"{short(match.model)} of {match.variant}"
    if not result.events:
        return _not_done(title, result, match.model)
    event: Any = result.events[0]
    value = {"model": match.model, "sound": True, "node": event.node}
    return Output(value=value, text=f"{title} is sound: verified on {event.node}")


async def _import(context: Context) -> Output:
    """Make a model of a file; the same file again is the same model."""
    options = context.options
    if options.variant is None:
        raise InputError("name the variant:  ringrift models import FILE --variant NAME")
    content = read_model(Path(options.name))
    node = _local_node(await context.roster.present(), context.settings.node.id)
    file = Folder(node.address, node.id).put(content)
    async with context.store.begin() as tx:
        existing = await operator.imported_from(tx, options.variant, file)
        if existing is not None:
            return _imported(context, existing, file, again=True)
        await tx.put([ledger.holding(file, node.id)])
        job, after = await operator.import_model(tx, options.variant, file, actor=_actor(context))
    result = await follow(context, [job], after)
    if not result.events:
        return _not_done(options.name, result, None)
    event: Any = result.events[0]
    return _imported(context, event.model, file, again=False)


def _imported(context: Context, blob: str, file: str, *, again: bool) -> Output:
    state = "was imported before" if again else "is imported and sound"
    text = f"{context.options.name} {state}: it is model {blob} of {context.options.variant}\n"
    text += f"only a match can make it champion:  ringrift models promote {short(blob)}"
    return Output(value={"model": blob, "file": file, "again": again}, text=text)


def _actor(context: Context) -> operator.Actor:
    return operator.Actor(envelopes=context.envelopes(), now=context.clock.now())


def _local_node(nodes: Sequence[NodeRecord], own: str) -> NodeRecord:
    """A running node with its blobs on this machine, where others get them: *own* if it is one.  Raises WorkError."""
    local = [node for node in nodes if Folder(node.address, node.id).find_away() is None]
    if not local:
        raise WorkError('no running node on this machine can do this; start one with "ringrift run"')
    return min(local, key=lambda node: (node.id != own, node.id))


def _not_done(title: str, result: JobsResult, blob: str | None) -> Output:
    value = {"model": blob, "error": result.error, "pending": result.pending}
    return Output(value=value, text=f"{title}: {result.reason}", code=EXIT_FAILED)


def _prepare(context: Context) -> None:
    options = context.options
    if options.verb != "list" and not options.name:
        target = {"rollback": "VARIANT", "import": "FILE --variant NAME"}.get(options.verb, "MODEL")
        raise InputError(f"argument missing:  ringrift models {options.verb} {target}")


# Exit code 1 if a gate or a check refuses, or if no node did the job.
_VERBS = {verb.__name__[1:]: verb for verb in (_list, _show, _verify, _promote, _rollback, _import)}
COMMAND = Command(arguments=_arguments, prepare=_prepare, question=by_verb(_VERBS))
