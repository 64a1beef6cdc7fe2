"""Lineage: how every blob was made, what a model rests on, and which models have seen the games of a node."""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from ringrift import __version__
from ringrift.cluster import roster
from ringrift.jobs import Ingest, Job, Play, Train
from ringrift.kernel import variant as variants
from ringrift.kernel.errors import UnknownName, require_name
from ringrift.kernel.ids import check_id
from ringrift.kernel.value import Value, changed
from ringrift.pipeline.line import LINES, require_line
from ringrift.store.ports import Origin, Reads, Share
from ringrift.work.limits import LineWork
from ringrift.workload.api import JobResult, Scalar

_REPLAYED, _PENDING = "replayed", "pending"  #: Whether a game from elsewhere counted after its replay, or before.
_GAMES, _MODEL = "games", "model"
_PARENTS_MAX = 5_000  #: Models before a model that are followed.
_BATCHES_MAX = 1_000  #: Batches behind one model's samples that are read: a window has 256 at most.
MODELS_MAX, SAMPLES_MAX = 20_000, 20_000  #: Models of all time, and samples with games of one node, that are looked at.
_MAKERS_MAX, _DIGEST_DIGITS = 1_000, 16


class _Group(Value, kw_only=False):
    """Batches behind the same samples that one node played with one model and one version of the code."""

    node: str
    model: str | None
    version: str
    batches: int
    games: int
    first: float
    last: float


class Lineage(Value):
    """The lineage of a model."""

    model: Origin
    champion: bool
    again: tuple[Origin, ...] = ()  #: The same bytes, made by other nodes.
    samples: Origin | None = None
    batches: tuple[Origin, ...] = ()  #: The batches that its samples were exported from.
    groups: tuple[_Group, ...] = ()
    parents: tuple[Origin, ...] = ()  #: Its parent, the parent of that and so on.
    behind: tuple[Share, ...] = ()  #: By node, the games that it or any of its parents was trained on, each once.
    missing: tuple[str, ...] = ()  #: Models and samples on the way of which no origin is written down.
    cut: tuple[str, ...] = ()  #: The lists that were cut at their limit.


class Touched(Value):
    """Samples or a model that have seen games of a node, in themselves or only through a parent."""

    origin: Origin
    directly: bool
    via: str  #: The samples with the games if directly; else the nearest model before it that was trained on some.
    batches: int
    games: int
    champion: bool = False


class Blast(Value):
    """The samples and models that games of a node have reached, newest first."""

    node: str
    since: float
    until: float
    variant: str | None
    played: Share  #: All that it played in that time, used or not.
    samples: tuple[Touched, ...]
    models: tuple[Touched, ...]
    cut: tuple[str, ...] = ()


def origins(job: Job, result: JobResult, node: str, line: LineWork) -> tuple[Origin, ...]:
    """How *node* made what *job* ended with; the desk adds for which job and when."""
    model = job.model if isinstance(job, Play) else job.parent if isinstance(job, Train) else None
    origin = Origin(blob="", node=node, kind="", variant=job.variant, key=job.key, seed=job.seed, model=model)
    origin = changed(origin, job_kind=job.kind(), workload=line.workload, settings=_digest(line.params))
    origin = changed(origin, version=result.version, release=__version__)
    if isinstance(job, Train):
        origin = changed(origin, generation=job.generation, samples=job.samples)
    if isinstance(job, Ingest):
        origin = changed(origin, settings=_REPLAYED if job.replay else _PENDING)
    return tuple(changed(origin, blob=out.blob, kind=out.kind, games=_games(out.meta)) for out in result.outputs)


def _digest(params: Mapping[str, Scalar]) -> str:
    """A short name for *params*: the same for the same settings, whatever their order."""
    return hashlib.sha256(msgspec.json.encode(params, order="sorted")).hexdigest()[:_DIGEST_DIGITS]


def _games(meta: Mapping[str, Scalar]) -> int:
    games = meta.get("games", 0)
    return games if isinstance(games, int) else 0


async def lineage(view: Reads, blob: str) -> Lineage:
    """Where the model *blob* comes from, by a bounded number of indexed steps.  Raises UnknownName."""
    own = await view.origins([blob])
    if not own:
        raise UnknownName("model", blob)
    names = await view.walk([blob], True, _PARENTS_MAX + 1, (_MODEL,))
    parents = _first_of_each(await view.origins(names[:_PARENTS_MAX]), names)
    models = [own[0], *parents]
    learnt = list(dict.fromkeys(model.samples for model in models if model.samples is not None))
    samples = {origin.blob: origin for origin in await view.origins(learnt)}
    batches = await view.walk(learnt[:1], True, _BATCHES_MAX + 1, (_GAMES,)) if own[0].samples else ()
    played = tuple(await view.origins(batches[:_BATCHES_MAX]))
    behind = tuple(await view.shares_by_node(_GAMES, learnt))
    limits = (("parents", names, _PARENTS_MAX), ("batches", batches, _BATCHES_MAX))
    cut = tuple(f"only {limit:,} {what} were followed" for what, rows, limit in limits if len(rows) > limit)
    model = Lineage(model=own[0], champion=blob in await _champions(view), again=tuple(own[1:]), parents=parents)
    model = changed(model, samples=samples.get(own[0].samples or ""), batches=played, groups=_groups(played))
    return changed(model, behind=behind, missing=_missing(models, samples), cut=cut)


def code_of(origin: Origin) -> str:
    """The version of the code that made a blob; of imported games also whether they counted before their replay."""
    is_imported = origin.job_kind == Ingest.kind()
    return f"{origin.version}, imported, {origin.settings}" if is_imported else origin.version


def _groups(batches: Iterable[Origin]) -> tuple[_Group, ...]:
    """*batches* summed by node, model and version of the code, those with the most games first."""
    sums: dict[tuple[str, str | None, str], _Group] = {}
    for batch in batches:
        key, time = (batch.node, batch.model, code_of(batch)), batch.time
        group = sums.get(key) or _Group(*key, batches=0, games=0, first=time, last=time)
        first, last, games = min(group.first, time), max(group.last, time), group.games + batch.games
        sums[key] = changed(group, batches=group.batches + 1, games=games, first=first, last=last)
    return tuple(sorted(sums.values(), key=lambda g: (-g.games, g.node, g.model or "", g.version)))


async def _champions(view: Reads) -> set[str]:
    return {line.champion for line in await LINES.all(view) if line.champion is not None}


def _first_of_each(origins: Sequence[Origin], order: Sequence[str]) -> tuple[Origin, ...]:
    """One origin for each name, in *order*: the same bytes have the same past on every node that made them."""
    first = {origin.blob: origin for origin in reversed(origins)}
    return tuple(first[name] for name in order if name in first)


def _missing(models: Sequence[Origin], samples: Collection[str]) -> tuple[str, ...]:
    present = {model.blob for model in models} | set(samples)
    blobs = dict.fromkeys(blob for model in models for blob in (model.model, model.samples) if blob is not None)
    return tuple(blob for blob in blobs if blob not in present)


async def blast(view: Reads, node: str, since: float, until: float, variant: str | None = None) -> Blast:
    """Find what has used any game that *node* played from *since* to before *until*.  Raises UnknownName, InvalidId."""
    await _require_known(view, node, variant)
    rows = await view.shares_made_from(_GAMES, node, since, until, SAMPLES_MAX + 1, variant=variant)
    shares = {share.name: share for share in rows[:SAMPLES_MAX]}
    samples = _first_of_each(await view.origins(list(shares)), list(shares))
    models = await view.list_origins(_MODEL, MODELS_MAX + 1, variant=variant)
    limits = (("samples", rows, SAMPLES_MAX), ("models", models, MODELS_MAX))
    cut = tuple(f"only the newest {limit:,} {what} were searched" for what, of, limit in limits if len(of) > limit)
    played = await view.share_of_node(_GAMES, node, since, until, variant=variant)
    used = tuple(_touched(origin, shares[origin.blob], origin.blob) for origin in samples)
    reached = _spread(models[:MODELS_MAX], shares, await _champions(view))
    blast = Blast(node=node, since=since, until=until, variant=variant, played=played, samples=used, models=reached)
    return changed(blast, cut=cut)


def _spread(models: Sequence[Origin], shares: Mapping[str, Share], champions: Collection[str]) -> tuple[Touched, ...]:
    """Those of *models* that were trained on samples of *shares*, and all that descend from them, in their order."""
    children: dict[str, list[str]] = {}
    direct: dict[str, Share] = {}
    for model in models:
        if model.model is not None:
            children.setdefault(model.model, []).append(model.blob)
        if model.samples is not None and model.samples in shares:
            direct.setdefault(model.blob, shares[model.samples])
    via = {blob: blob for blob in direct}
    edge = list(direct)
    while edge:  # each model is entered once, from the nearest one that used the games itself
        near = [(child, via[blob]) for blob in edge for child in children.get(blob, ()) if child not in via]
        via.update(near)
        edge = list(dict(near))
    reached = {model.blob: model for model in reversed(models) if model.blob in via}
    rows = reversed(reached.items())
    return tuple(_touched(model, direct[via[blob]], via[blob], blob in champions) for blob, model in rows)


def _touched(origin: Origin, share: Share, via: str, champion: bool = False) -> Touched:
    """*origin*, which has used the games of *share* itself, or through the model *via*."""
    is_direct = via == origin.blob
    via = share.name if is_direct else via
    touched = Touched(origin=origin, directly=is_direct, via=via, batches=share.blobs, games=share.games)
    return changed(touched, champion=champion)


async def _require_known(view: Reads, node: str, variant: str | None) -> None:
    nodes = {*await view.origin_nodes(_MAKERS_MAX), *await roster.NODES.scan(view)}
    require_name("node", check_id("node", node), nodes)
    if variant is not None:
        variants.parse(variant)
        await require_line(view, variant)
