"""Packs small files of games that have rested for a while: few large files are listed and sent faster than many."""

from collections.abc import Mapping, Sequence

from ringrift.blobs.ports import Blobs, StoredBlob
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.events.data import Packed
from ringrift.kernel.clock import Clock
from ringrift.kernel.settings import Settings
from ringrift.store.ports import Store
from ringrift.supervision.spec import Daemon

_PAGE = 500  #: Files that are looked at together.
_PAGES_MAX = 200  #: Pages in one look; the next one goes on there.
_PACKS_MAX = 8  #: Packs in one look: between them others get at the disk.
_FILES_MAX = 2_000  #: Files in one pack: a slow disk reads so many before it counts as one that hangs.
_GAMES = "games"


class _Place:
    """Where the next look goes on."""

    def __init__(self) -> None:
        self.after = ""


async def consolidate(
    *, store: Store, blobs: Blobs, envelopes: EnvelopeFactory, clock: Clock, settings: Settings, memory: _Place
) -> int:
    """Look once; how many files went into packs.

    Only games are packed: a model or samples are opened by their path, again and again, and are large.
    """
    own = settings.upkeep
    before, limit = clock.now() - own.rest_seconds, own.pack_bytes_max
    files, after = dict[str, int](), memory.after
    for _ in range(_PAGES_MAX):
        page = await blobs.page(after, _PAGE)
        after = page[-1].blob if len(page) == _PAGE else ""
        files |= await _only_games(store, _choose_small(page, before, own.small_bytes_max))
        if not after or sum(files.values()) >= _PACKS_MAX * limit or len(files) >= _PACKS_MAX * _FILES_MAX:
            break
    groups = [group for group in _split(files, limit) if len(group) >= own.pack_files_min][:_PACKS_MAX]
    # Without files it only looks after packs of which little is left.
    packed = sum([await blobs.consolidate(group, before, limit) for group in groups or [[]]])
    memory.after = groups[-1][-1] if len(groups) == _PACKS_MAX else after
    if packed:
        async with store.begin() as tx:
            await tx.append([envelopes.make(Packed(node=envelopes.node, count=packed), source="consolidate")])
    return packed


def _split(files: Mapping[str, int], bytes_max: int) -> list[list[str]]:
    """*files* in groups of at most *bytes_max*, each for one pack."""
    groups, size = [list[str]()], 0
    for blob, of_blob in files.items():
        if groups[-1] and (size + of_blob > bytes_max or len(groups[-1]) >= _FILES_MAX):
            groups.append([])
            size = 0
        groups[-1].append(blob)
        size += of_blob
    return groups


def _choose_small(page: Sequence[StoredBlob], before: float, bytes_max: int) -> dict[str, int]:
    """The small files of *page* that were stored before *before*, with their sizes."""
    return {row.blob: row.size for row in page if not row.is_packed and row.size <= bytes_max and row.time < before}


async def _only_games(store: Store, files: dict[str, int]) -> dict[str, int]:
    """Those of *files* that are games and nothing else."""
    kinds = dict[str, set[str]]()
    async with store.read() as view:
        for origin in await view.origins(list(files)) if files else ():
            kinds.setdefault(origin.blob, set()).add(origin.kind)
    return {blob: size for blob, size in files.items() if kinds.get(blob) == {_GAMES}}


_SECONDS = "upkeep.consolidate_seconds"
SPEC = Daemon(
    name="consolidate", run=consolidate, memory=_Place, every=_SECONDS, seconds_max=600.0, category="resources"
)
