"""List, show, verify, import and export models; nominate one for promotion; roll back to an earlier champion."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ringrift.blobs.folder import Folder
from ringrift.cli.command import EXIT_FAILED, Command, Context, Output, Parser, by_verb
from ringrift.cli.commands.promotions import DecisionView, evidence_text, gain_over_predecessor, view_decision
from ringrift.cli.follow_jobs import JobsResult
from ringrift.cli.formats import ago, elo_bounds, short, signed, table, timestamp, verdict_line
from ringrift.cli.metric_files import SHOWN, training_figures
from ringrift.cli.own_worker import do_jobs, local_node
from ringrift.cluster.roster import NODES
from ringrift.daemons.link_champions import link_now
from ringrift.events import model
from ringrift.jobs import STAGE, Import, Verify
from ringrift.kernel.errors import InputError, WorkError
from ringrift.pipeline import operator
from ringrift.pipeline.inbox import read_model
from ringrift.pipeline.line import DECISIONS, Line, Stage, require_line
from ringrift.pipeline.metrics import metric_history, training_of
from ringrift.pipeline.models import MODEL, MODELS, ModelMatch, State, is_imported, model_file, resolve
from ringrift.pipeline.ratings import elo_of
from ringrift.pipeline.records import evidence_of
from ringrift.store.ports import Reads
from ringrift.sync import ledger

_IMPORTED = "imported"
_ORIGINS_MAX = 10_000


def _arguments(parser: Parser) -> None:
    verbs = "verify: check the weights; promote: nominate as a candidate; rollback: restore a champion; import: a file"
    parser.add_argument("verb", nargs="?", default="list", choices=tuple(_VERBS), help=f"{verbs} (default: list)")
    target = "show, verify, promote: first digits of a model's hash, or a variant for its champion"
    parser.add_argument("name", nargs="?", help=f"{target}; rollback: the variant; import: the file")
    parser.add_argument("file", nargs="?", help="export: the file to write (default: named after the model)")
    parser.add_argument("--variant", metavar="NAME", help="list: only this variant; promote, import: for this variant")
    parser.add_argument("--to", metavar="MODEL", help="rollback: an earlier champion (default: the one before)")
    parser.add_argument("--reason", default="by hand", help="rollback: reason for the log")


def _row(variant: str, model: str | None, generation: int | None, state: str, since: float) -> dict[str, Any]:
    """A model that was not tested; one that is being trained has no weights yet."""
    row = {"variant": variant, "model": model, "generation": generation, "state": state, "since": since}
    return row | {"elo": None, "gain": None, "blocks": 0, "held_out_loss": None}


async def _models_of(view: Reads, line: Line) -> list[dict[str, Any]]:
    variant, rows = line.variant, []
    decisions = await DECISIONS.all(view, "variant", variant)
    tests = {decision.model: decision for decision in decisions if decision.kind == "promotion"}
    models = {record.model: record for record in await MODELS.all(view, "variant", variant)}
    elo = {row.model: row.elo for row in await elo_of(view, variant)}
    losses = {point.model: point.held_out_loss for point in await metric_history(view, variant)}
    for blob, record in models.items():
        row = _row(variant, blob, record.generation, record.state, record.since)
        row |= {"elo": elo.get(blob), "held_out_loss": losses.get(blob)}
        if (test := tests.get(blob)) and test.evidence:
            row |= {"gain": gain_over_predecessor(test, line.players), "blocks": test.evidence.blocks}
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
    elo = next((row.elo for row in await elo_of(view, match.variant) if row.model == model), None)
    training = await training_of(view, match.variant, model)
    return {**start, "champion": line.champion == model, "elo": elo, "training": training, **history}


def _models_text(rows: Sequence[Mapping[str, Any]], now: float) -> str:
    cells = []
    for row in rows:
        generation = "—" if row["generation"] is None else row["generation"]
        start = (row["variant"], generation, row["state"], ago(row["since"], now), short(row["model"]))
        elo = "—" if row["elo"] is None else elo_bounds(row["elo"])
        loss = "—" if row["held_out_loss"] is None else f"{row['held_out_loss']:.4f}"
        cells.append((*start, elo, signed(row["gain"]), row["blocks"] or "—", loss))
    head = ("variant", "generation", "state", "since", "model", "Elo", "gain*", "blocks", "held-out loss")
    return table(head, cells, "no models yet") + ("\n* over the predecessor, in their match" if cells else "")


def _model_text(model: Mapping[str, Any]) -> str:
    generation = "" if model["generation"] is None else f", generation {model['generation']}"
    lines = [f"model {model['model']}", f"  {model['variant']}{generation}, {model['state']}"]
    if model["elo"] is not None:
        lines.append(f"Elo  {elo_bounds(model['elo'])} over generation 0")
    if figures := training_figures(model["training"]):
        lines.append("training  " + ", ".join(f"{name} {figure}" for name, figure in figures.items()))
        reported = {n: v for n, v in model["training"].metrics.items() if n not in SHOWN}
        lines.append("reported  " + ", ".join(f"{name} {value:.6g}" for name, value in sorted(reported.items())))
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
    await link_now(context.store, await context.roster.all_nodes())  # no node may run that would do it
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
    async with context.store.read() as view:
        match = await resolve(view, context.options.name, context.options.variant)
    title = f"{short(match.model)} of {match.variant}"
    result = await do_jobs(context, [Verify(variant=match.variant, model=match.model, priority=STAGE)])
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
    node = local_node(await context.roster.all_nodes(), context.settings.node.id)
    if node is None:
        raise WorkError('no node has its files on this machine; start one with "ringrift run" or "ringrift node"')
    file = Folder(node.address, node.id).put(content)
    async with context.store.begin() as tx:
        existing = await operator.imported_from(tx, options.variant, file)
        if existing is not None:
            return _imported(context, existing, file, again=True)
        await require_line(tx, options.variant)
        await tx.put([ledger.holding(file, node.id)])
    result = await do_jobs(context, [Import(variant=options.variant, file=file, priority=STAGE)])
    if not result.events:
        return _not_done(options.name, result, None)
    event: Any = result.events[0]
    return _imported(context, event.model, file, again=False)


async def _export(context: Context) -> Output:
    """Write the file of a model, verified, whole or not at all."""
    options = context.options
    async with context.store.read() as view:
        match = await resolve(view, options.name, options.variant)
        source = await model_file(view, match.model)
    target = Path(options.file or f"{match.variant}-{short(match.model)}.pth")
    size = _write(target, source.read_bytes())
    value = {"model": match.model, "variant": match.variant, "file": str(target), "bytes": size}
    return Output(value=value, text=f"{short(match.model)} of {match.variant}: {size} bytes written to {target}")


def _write(target: Path, content: bytes) -> int:
    """Write *content* to *target*, whole or not at all; its size.  Raises InputError if it cannot be written."""
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        if target.is_dir():
            raise InputError(f"cannot write {target}: it is a folder")
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise InputError(f"cannot write {target}: {error.strerror}") from error
    return len(content)


def _imported(context: Context, blob: str, file: str, *, again: bool) -> Output:
    state = "was imported before" if again else "is imported and sound"
    text = f"{context.options.name} {state}: it is model {blob} of {context.options.variant}\n"
    text += f"only a match can make it champion:  ringrift models promote {short(blob)}"
    return Output(value={"model": blob, "file": file, "again": again}, text=text)


def _actor(context: Context) -> operator.Actor:
    return operator.Actor(envelopes=context.envelopes(), now=context.clock.now())


def _not_done(title: str, result: JobsResult, blob: str | None) -> Output:
    value = {"model": blob, "error": result.error}
    return Output(value=value, text=f"{title}: {result.error}", code=EXIT_FAILED)


def _prepare(context: Context) -> None:
    options = context.options
    if options.verb != "list" and not options.name:
        targets = {"rollback": "VARIANT", "import": "FILE --variant NAME", "export": "MODEL [FILE]"}
        target = targets.get(options.verb, "MODEL")
        raise InputError(f"argument missing:  ringrift models {options.verb} {target}")


# Exit code 1 if a gate or a check refuses, or if no node did the job.
_VERBS = {verb.__name__[1:]: verb for verb in (_list, _show, _verify, _promote, _rollback, _import, _export)}
COMMAND = Command(arguments=_arguments, prepare=_prepare, question=by_verb(_VERBS))
