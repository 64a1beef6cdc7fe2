"""``ringrift lineage MODEL``: what a model was made from, up to the nodes, seeds and code behind its games."""

import argparse
import json
from collections.abc import Mapping

import msgspec

from ringrift.cli.show import clock, short, table
from ringrift.cli.store import answer
from ringrift.pipeline.lineage import Group, Lineage, find_model, lineage
from ringrift.store.ports import Origin, Store

PARENTS_SHOWN, GROUPS_SHOWN, NODES_SHOWN = 10, 20, 20


def made(one: Origin) -> str:
    """By whom, when and with what code a blob was made."""
    code = f"{one.workload} {one.version or 'of unknown version'}, ringrift {one.release}, settings {one.settings[:8]}"
    return f"by {one.node} at {clock(one.time)}, seed {one.seed}, job {one.job} ({code})"


def as_text(found: Lineage, *, full: bool) -> str:
    """The tree for people: the model, its samples, its batches, its parents, all games behind it."""
    one = found.model
    champion = ", champion" if found.champion else ""
    out = [f"model {one.blob}: {one.variant}, generation {one.generation}{champion}", f"  trained {made(one)}"]
    out += [f"  the same bytes came {made(other)}" for other in found.again]
    out += [f"  parent {one.model}" if one.model else "  no parent: its line begins here"]
    out += [*_samples(found), *(_batches(found) if full else _groups(found)), *_parents(found, full=full)]
    if found.behind:
        out += _behind(found, full=full)
    if found.missing:
        names = ", ".join(short(blob) for blob in found.missing[:PARENTS_SHOWN])
        out.append(f"not written down how these were made: {names}{_more(len(found.missing), PARENTS_SHOWN)}")
    return "\n".join([*out, *(f"cut: {said}" for said in found.cut)])


def _samples(found: Lineage) -> list[str]:
    if found.model.samples is None:
        return ["samples none: it has learnt from no game"]
    if found.samples is None:
        return [f"samples {found.model.samples}"]
    games = sum({one.blob: one.games for one in found.batches}.values())
    lost = found.samples.games - games
    unknown = [f"  {lost} of its games come from batches of which no origin is written down"] if lost > 0 else []
    count = len({one.blob for one in found.batches})
    return [f"samples {found.samples.blob}: {games} games in {count} batches",
            f"  exported {made(found.samples)}", *unknown]  # fmt: skip


def _groups(found: Lineage) -> list[str]:
    if not found.groups:
        return []
    rows = [_row(group) for group in found.groups[:GROUPS_SHOWN]]
    text = table(("  node", "model", "code", "batches", "games", "first", "last"), rows)
    return [text + _more(len(found.groups), GROUPS_SHOWN, "\n  … and {} more groups")]


def _row(group: Group) -> tuple[object, ...]:
    code = group.version or "—"
    return (
        f"  {group.node}", short(group.model), code, group.batches, group.games, clock(group.first), clock(group.last)
    )  # fmt: skip


def _batches(found: Lineage) -> list[str]:
    rows = [
        (f"  {one.blob}", one.node, short(one.model), one.version or "—", one.games, one.seed, clock(one.time))
        for one in found.batches
    ]
    return [table(("  batch", "node", "model", "code", "games", "seed", "time"), rows)] if rows else []


def _parents(found: Lineage, *, full: bool) -> list[str]:
    if not found.parents:
        return []
    limit = len(found.parents) if full else PARENTS_SHOWN
    rows = [
        (f"  {one.generation}", one.blob if full else short(one.blob), short(one.samples), one.node, clock(one.time))
        for one in found.parents[:limit]
    ]
    text = table(("  generation", "model", "samples", "node", "time"), rows)
    return [f"parents {len(found.parents)}", text + _more(len(found.parents), limit, "\n  … and {} more (--full)")]


def _behind(found: Lineage, *, full: bool) -> list[str]:
    limit = len(found.behind) if full else NODES_SHOWN
    games, batches = sum(one.games for one in found.behind), sum(one.blobs for one in found.behind)
    rows = [(f"  {one.name}", one.blobs, one.games) for one in found.behind[:limit]]
    text = table(("  node", "batches", "games"), rows)
    more = _more(len(found.behind), limit, "\n  … and {} more nodes (--full)")
    return [f"behind it and its parents {games} games in {batches} batches", text + more]


def _more(count: int, limit: int, text: str = " and {} more") -> str:
    return text.format(count - limit) if count > limit else ""


async def do(store: Store, options: argparse.Namespace, node: str) -> str:
    """What the store says of the model."""
    async with store.read() as view:
        found = await lineage(view, await find_model(view, options.model))
    if options.json:
        return json.dumps(msgspec.to_builtins(found), indent=2)
    return as_text(found, full=options.full)


def main(options: argparse.Namespace, given: Mapping[str, object]) -> int:
    """Print it; 0.  Raises UnknownName or InputError for a model that there is not, or more than one of."""
    return answer(options, given, do)
