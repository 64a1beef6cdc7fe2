"""Show what a model was made from: samples, batches, nodes, seeds, parents and code."""

from ringrift.cli.command import Command, Context, Output, Parser
from ringrift.cli.formats import short, table, timestamp
from ringrift.pipeline.lineage import Lineage, code_of, lineage
from ringrift.pipeline.models import resolve
from ringrift.store.ports import Origin

_PARENTS_LISTED, _GROUPS_LISTED, _NODES_LISTED = 10, 20, 20


def _arguments(parser: Parser) -> None:
    parser.add_argument("model", help="first digits of a model's hash, or a variant for its champion")
    parser.add_argument("--full", action="store_true", help="list every batch and every parent")


def _made(origin: Origin) -> str:
    """Where, when and with which code a blob was made."""
    version = origin.version or "of unknown version"
    code = f"{origin.workload} {version}, ringrift {origin.release}, settings {origin.settings[:8]}"
    return f"by {origin.node} at {timestamp(origin.time)}, seed {origin.seed}, job {origin.job} ({code})"


def _as_text(tree: Lineage, *, full: bool) -> str:
    model = tree.model
    champion = ", champion" if tree.champion else ""
    title = f"model {model.blob}: {model.variant}, generation {model.generation}{champion}"
    lines = [title, f"  trained {_made(model)}"]
    lines += [f"  the same bytes were made {_made(other)}" for other in tree.again]
    lines += [f"  parent {model.model}" if model.model else "  no parent: first of its line"]
    lines += [*_samples(tree), *(_batches(tree) if full else _groups(tree))]
    lines += [*_parents(tree, full=full), *_behind(tree, full=full)]
    if tree.missing:
        names = ", ".join(short(blob) for blob in tree.missing[:_PARENTS_LISTED])
        more = f" and {len(tree.missing) - _PARENTS_LISTED} more" if len(tree.missing) > _PARENTS_LISTED else ""
        lines.append(f"no origin is recorded for: {names}{more}")
    return "\n".join([*lines, *(f"truncated: {limit}" for limit in tree.cut)])


def _samples(tree: Lineage) -> list[str]:
    if tree.model.samples is None:
        return ["samples none: trained on no games"]
    if tree.samples is None:
        return [f"samples {tree.model.samples}"]
    games = {batch.blob: batch.games for batch in tree.batches}
    lost = tree.samples.games - sum(games.values())
    lines = [f"samples {tree.samples.blob}: {sum(games.values())} games in {len(games)} batches"]
    lines.append(f"  exported {_made(tree.samples)}")
    return [*lines, f"  {lost} of its games come from batches without a recorded origin"] if lost > 0 else lines


def _groups(tree: Lineage) -> list[str]:
    rows = []
    for group in tree.groups:
        counts = (group.batches, group.games, timestamp(group.first), timestamp(group.last))
        rows.append((f"  {group.node}", short(group.model), group.version or "—", *counts))
    head = ("  node", "model", "code", "batches", "games", "first", "last")
    return [table(head, rows, limit=_GROUPS_LISTED, more="  … and {} more groups")] if rows else []


def _batches(tree: Lineage) -> list[str]:
    rows = []
    for batch in tree.batches:
        start = (f"  {batch.blob}", batch.node, short(batch.model), code_of(batch) or "—")
        rows.append((*start, batch.games, batch.seed, timestamp(batch.time)))
    return [table(("  batch", "node", "model", "code", "games", "seed", "time"), rows)] if rows else []


def _parents(tree: Lineage, *, full: bool) -> list[str]:
    limit, rows = None if full else _PARENTS_LISTED, []
    for parent in tree.parents:
        model = parent.blob if full else short(parent.blob)
        rows.append((f"  {parent.generation}", model, short(parent.samples), parent.node, timestamp(parent.time)))
    head = ("  generation", "model", "samples", "node", "time")
    return [f"parents {len(rows)}", table(head, rows, limit=limit, more="  … and {} more (--full)")] if rows else []


def _behind(tree: Lineage, *, full: bool) -> list[str]:
    if not tree.behind:
        return []
    games, batches = sum(node.games for node in tree.behind), sum(node.blobs for node in tree.behind)
    rows, limit = [(f"  {node.name}", node.blobs, node.games) for node in tree.behind], None if full else _NODES_LISTED
    text = table(("  node", "batches", "games"), rows, limit=limit, more="  … and {} more nodes (--full)")
    return [f"behind it and its parents {games} games in {batches} batches", text]


async def _question(context: Context) -> Output:
    async with context.store.read() as view:
        match = await resolve(view, context.options.model)
        tree = await lineage(view, match.model)
    return Output(value=tree, text=_as_text(tree, full=context.options.full))


COMMAND = Command(arguments=_arguments, question=_question)
