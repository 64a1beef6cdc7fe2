"""Lineage: how every blob was made, what a model rests on, and which models have seen the games of a node."""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from ringrift import __version__
from ringrift.cluster import roster
from ringrift.jobs import Job, Play, Train
from ringrift.kernel import variant as variants
from ringrift.kernel.errors import InputError, UnknownName
from ringrift.kernel.ids import check_id
from ringrift.kernel.settings import WorkSettings
from ringrift.kernel.value import Value
from ringrift.pipeline.records import lines, load
from ringrift.store.ports import Origin, Reads, Share
from ringrift.workload.api import JobResult, Scalar

GAMES, SAMPLES, MODEL = "games", "samples", "model"
PARENTS_MAX = 5_000
"""Models before a model that are followed."""
BATCHES_MAX = 1_000
"""Batches behind one model's samples that are read: a window has 256 at most."""
MODELS_MAX, SAMPLES_MAX = 20_000, 20_000
"""Models of all time, and samples with games of one node, that are looked at."""
MAKERS_MAX = 1_000
KNOWN_SHOWN, AMBIGUOUS_SHOWN = 12, 8
PREFIX_SHOWN = 12
DIGEST_DIGITS = 16


class Group(Value):
    """Batches behind the same samples that one node played with one model and one version of the code."""

    node: str
    model: str | None
    version: str
    batches: int
    games: int
    first: float
    last: float


class Lineage(Value):
    """What a model rests on."""

    model: Origin
    champion: bool
    again: tuple[Origin, ...] = ()
    """The same bytes, made by other nodes."""
    samples: Origin | None = None
    batches: tuple[Origin, ...] = ()
    """What its samples were exported from."""
    groups: tuple[Group, ...] = ()
    parents: tuple[Origin, ...] = ()
    """Its parent, the parent of that and so on."""
    behind: tuple[Share, ...] = ()
    """By node, the games that it or any of its parents was trained on, each once."""
    missing: tuple[str, ...] = ()
    """Models and samples on the way of which no origin is written down."""
    cut: tuple[str, ...] = ()
    """What was more than its limit, and is not all here."""


class Touched(Value):
    """Samples or a model that have seen games of a node, in themselves or only through a parent."""

    origin: Origin
    directly: bool
    via: str
    """The samples with the games if directly; else the nearest model before it that was trained on some."""
    batches: int
    games: int
    champion: bool = False


class Blast(Value):
    """What the games of a node have reached, newest first."""

    node: str
    since: float
    until: float
    variant: str | None
    played: Share
    """All that it played in that time, seen by anybody or not."""
    samples: tuple[Touched, ...]
    models: tuple[Touched, ...]
    cut: tuple[str, ...] = ()


# -- what is written down ----------------------------------------------------------------------------------------------


def origins(job: Job, result: JobResult, *, node: str, work: WorkSettings, version: str) -> tuple[Origin, ...]:
    """How *node* made what *job* ended with, by code of *version*; the desk adds for which job and when."""
    model = job.model if isinstance(job, Play) else job.parent if isinstance(job, Train) else None
    return tuple(
        Origin(
            blob=output.blob, node=node, kind=output.kind, variant=job.variant, games=_games(output.meta),
            job_kind=job.kind(), key=job.key, seed=job.seed, model=model, workload=work.workload,
            generation=job.generation if isinstance(job, Train) else None,
            samples=job.samples if isinstance(job, Train) else None,
            version=version, release=__version__, settings=digest(work.params),
        )
        for output in result.outputs
    )  # fmt: skip


def digest(params: Mapping[str, Scalar]) -> str:
    """A short name for *params*: the same for the same settings, whatever their order."""
    return hashlib.sha256(msgspec.json.encode(params, order="sorted")).hexdigest()[:DIGEST_DIGITS]


def _games(meta: Mapping[str, Scalar]) -> int:
    games = meta.get("games", 0)
    return games if isinstance(games, int) else 0


# -- what a model rests on ---------------------------------------------------------------------------------------------


async def find_model(view: Reads, asked: str) -> str:
    """The model that *asked* means: the beginning of its name, or a variant for its champion.

    Raises InvalidId, UnknownName, or InputError if several begin like that or the variant has no champion.
    """
    line = await load(view, check_id("model", asked))
    if line is not None and line.champion is None:
        raise InputError(f"{asked} has no champion yet")
    prefix = line.champion if line is not None and line.champion is not None else asked
    found = await view.made(MODEL, AMBIGUOUS_SHOWN + 1, prefix=prefix)
    names = list(dict.fromkeys(origin.blob for origin in found))
    if not names:
        newest = [origin.blob[:PREFIX_SHOWN] for origin in await view.made(MODEL, KNOWN_SHOWN)]
        raise UnknownName("model", asked, [*newest, *(one.variant for one in await lines(view))])
    if len(names) > 1:
        some = ", ".join(name[:PREFIX_SHOWN] for name in names[:AMBIGUOUS_SHOWN])
        more = " and more" if len(names) > AMBIGUOUS_SHOWN else ""
        raise InputError(f"model {asked!r:.80} is not the beginning of one name but of several: {some}{more}")
    return names[0]


async def lineage(view: Reads, blob: str) -> Lineage:
    """Where the model *blob* comes from, by a bounded number of indexed steps.  Raises UnknownName."""
    own = await view.origins([blob])
    if not own:
        raise UnknownName("model", blob)
    names = await view.walk([blob], True, PARENTS_MAX + 1, (MODEL,))
    parents = _first_of_each(await view.origins(names[:PARENTS_MAX]), names)
    models = [own[0], *parents]
    learnt = list(dict.fromkeys(one.samples for one in models if one.samples is not None))
    known = {one.blob: one for one in await view.origins(learnt)}
    batches = await view.walk(learnt[:1], True, BATCHES_MAX + 1, (GAMES,)) if own[0].samples else ()
    played = tuple(await view.origins(batches[:BATCHES_MAX]))
    limits = (("parents", names, PARENTS_MAX), ("batches", batches, BATCHES_MAX))
    return Lineage(
        model=own[0], champion=blob in await champions(view), again=tuple(own[1:]), parents=parents,
        samples=known.get(own[0].samples or ""), batches=played, groups=groups(played),
        behind=tuple(await view.makers_of(GAMES, learnt)), missing=_missing(models, known),
        cut=tuple(f"only {limit:,} {what} were followed" for what, found, limit in limits if len(found) > limit),
    )  # fmt: skip


def groups(batches: Iterable[Origin]) -> tuple[Group, ...]:
    """*batches* summed by node, model and version of the code, those with the most games first."""
    found: dict[tuple[str, str | None, str], list[Origin]] = {}
    for batch in batches:
        found.setdefault((batch.node, batch.model, batch.version), []).append(batch)
    summed = [
        Group(
            node=node, model=model, version=version, batches=len(some), games=sum(one.games for one in some),
            first=min(one.time for one in some), last=max(one.time for one in some),
        )
        for (node, model, version), some in found.items()
    ]  # fmt: skip
    return tuple(sorted(summed, key=lambda one: (-one.games, one.node, one.model or "", one.version)))


async def champions(view: Reads) -> set[str]:
    """The champion of every line."""
    return {line.champion for line in await lines(view) if line.champion is not None}


def _first_of_each(found: Sequence[Origin], order: Sequence[str]) -> tuple[Origin, ...]:
    """One origin for each name, in *order*: the same bytes have the same past, whoever made them again."""
    known: dict[str, Origin] = {}
    for origin in found:
        known.setdefault(origin.blob, origin)
    return tuple(known[name] for name in order if name in known)


def _missing(models: Sequence[Origin], samples: Collection[str]) -> tuple[str, ...]:
    known = {one.blob for one in models} | set(samples)
    wanted = dict.fromkeys(blob for one in models for blob in (one.model, one.samples) if blob is not None)
    return tuple(blob for blob in wanted if blob not in known)


# -- who has seen the games of a node ----------------------------------------------------------------------------------


async def blast(view: Reads, node: str, since: float, until: float, variant: str | None = None) -> Blast:
    """What has seen any game that *node* played from *since* to before *until*.  Raises UnknownName, InvalidId."""
    await _require_known(view, node, variant)
    found = await view.made_from(GAMES, node, since, until, SAMPLES_MAX + 1, variant=variant)
    shares = {share.name: share for share in found[:SAMPLES_MAX]}
    samples = _first_of_each(await view.origins(list(shares)), list(shares))
    models = await view.made(MODEL, MODELS_MAX + 1, variant=variant)
    limits = (("samples", found, SAMPLES_MAX), ("models", models, MODELS_MAX))
    return Blast(
        node=node, since=since, until=until, variant=variant,
        played=await view.made_by(GAMES, node, since, until, variant=variant),
        samples=tuple(_direct(one, shares[one.blob]) for one in samples),
        models=spread(models[:MODELS_MAX], shares, await champions(view)),
        cut=tuple(f"only the newest {limit:,} {what} were looked at" for what, of, limit in limits if len(of) > limit),
    )  # fmt: skip


def spread(models: Sequence[Origin], shares: Mapping[str, Share], champions: Collection[str]) -> tuple[Touched, ...]:
    """Those of *models* that were trained on samples of *shares*, and all that descend from them, in their order."""
    children: dict[str, list[str]] = {}
    direct: dict[str, Share] = {}
    for one in models:
        if one.model is not None:
            children.setdefault(one.model, []).append(one.blob)
        if one.samples is not None and one.samples in shares:
            direct.setdefault(one.blob, shares[one.samples])
    via = {blob: blob for blob in direct}
    edge = list(direct)
    while edge:  # each model is entered once, from the nearest one that saw the games itself
        near = [(child, via[blob]) for blob in edge for child in children.get(blob, ()) if child not in via]
        via.update(near)
        edge = list(dict(near))
    touched = {one.blob: one for one in reversed(models) if one.blob in via}
    return tuple(
        _direct(one, direct[blob], blob in champions) if blob in direct else Touched(
            origin=one, directly=False, via=via[blob], batches=direct[via[blob]].blobs, games=direct[via[blob]].games,
            champion=blob in champions,
        )
        for blob, one in reversed(touched.items())
    )  # fmt: skip


def _direct(one: Origin, share: Share, champion: bool = False) -> Touched:
    return Touched(origin=one, directly=True, via=share.name, batches=share.blobs, games=share.games, champion=champion)


async def _require_known(view: Reads, node: str, variant: str | None) -> None:
    nodes = {*await view.makers(MAKERS_MAX), *(one.id for one in await view.scan(roster.KIND, "", roster.NODES_MAX))}
    if check_id("node", node) not in nodes:
        raise UnknownName("node", node, nodes)
    if variant is not None:
        variants.parse(variant)
        known = [line.variant for line in await lines(view)]
        if variant not in known:
            raise UnknownName("variant", variant, known)
