"""Play against the champion of a variant, another model or a baseline in the terminal."""

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom

from ringrift.blobs.folder import FolderBlobs
from ringrift.cli.command import Command, Context, Output, Parser, open_existing
from ringrift.cli.formats import short
from ringrift.cli.terminal import TerminalGame
from ringrift.cluster.roster import NODES
from ringrift.kernel import errors
from ringrift.kernel import variant as variants
from ringrift.kernel.ids import seed_of
from ringrift.kernel.settings import StoreSettings
from ringrift.pipeline.inbox import read_model
from ringrift.pipeline.line import LINES
from ringrift.pipeline.models import resolve
from ringrift.workload.api import Board, HasBoard, VariantSpec, Workload
from ringrift.workload.registry import Registry

_SIMS_MAX = 1_000_000
_CHAMPION = "champion"


def _arguments(parser: Parser) -> None:
    add = parser.add_argument
    add("variant", help="e.g. square8_2p")
    add("--seat", type=int, default=1, metavar="N", help="your seat, from 1 (default 1)")
    add("--sims", type=int, default=64, metavar="N", help="simulations for each move of the opponent (default 64)")
    opponent = "champion, first digits of a model's hash, a model's file, or a baseline (default: champion)"
    add("--model", metavar="NAME", default=_CHAMPION, help=opponent)
    add("--seed", type=int, metavar="N", help="random seed of the opponent (default: a new one)")


@dataclass(frozen=True)
class _Opponent:
    """A *model*, or the *baseline* of that name."""

    title: str
    model: bytes | None = None
    baseline: str | None = None


async def _stored(store: StoreSettings, name: str, variant: str, workload: str) -> _Opponent:
    """The champion of *variant*, or the model that *name* means, from any node that has it whole.

    Raises InputError, NoChampion, TransferError, UnknownName, Unreachable.
    """
    async with open_existing(store) as opened, opened.read() as view:
        line, nodes = await LINES.get(view, variant), await NODES.all(view)
        if name != _CHAMPION:
            blob = (await resolve(view, name, variant)).model
        elif line is None or line.champion is None:
            raise errors.NoChampion(variant, f"{variant} has no champion yet")
        elif line.workload != workload:
            why = f"the champion of {variant} is a model of {line.workload}, not of {workload}"
            raise errors.NoChampion(variant, why)
        else:
            blob = line.champion
    failure = errors.TransferError(f"no node has {short(blob)}")
    for node in nodes:
        try:
            content = b"".join([chunk async for chunk in FolderBlobs(node.address, node.id).read(blob)])
            return _Opponent(f"champion {short(blob)}" if name == _CHAMPION else short(blob), content)
        except errors.TransferError as error:
            failure = error
    raise failure


def _find_opponent(context: Context, workload: Workload, spec: VariantSpec) -> _Opponent:
    """The opponent that the options name; a name that is neither file nor model may be a baseline with parameters."""
    name, store = context.options.model, context.settings.store
    if name in spec.baselines:
        return _Opponent(name, baseline=name)
    if Path(name).is_file():
        return _Opponent(name, read_model(Path(name)))
    is_hash = len(name) >= 4 and set(name) <= set("0123456789abcdef")
    if name != _CHAMPION and not is_hash:
        return _Opponent(name, baseline=name)
    return asyncio.run(_stored(store, name, spec.name, workload.name))


def _find_workload(context: Context) -> tuple[Workload, VariantSpec]:
    """The workload that can draw the variant: the configured one if it can, else the first that can.

    Raises InputError if it cannot be drawn or something is not installed, UnknownName if there is no such variant.
    """
    variant, work = context.options.variant, context.settings.work
    registry = Registry.load(work.executables)
    owner = registry.owner(variant, work.workload)
    specs = {
        name: spec
        for name in (owner, *registry.makers)
        for spec in registry.variants_of(name)
        if spec.name == variant and spec.can_render and spec.can_parse and isinstance(registry.get(name), HasBoard)
    }
    if not specs:
        raise errors.InputError(f"{variant} cannot be played here: {owner} declares neither can_render nor can_parse")
    name = next(iter(specs))
    if missing := registry.find_missing(name):
        raise errors.RingriftError(f"{variant} cannot be played here: {missing}")
    return registry.get(name), specs[name]


def _prepare(context: Context) -> Output:
    """Play one game.  Raises InputError, NoChampion, SettingsError, UnknownName."""
    options = context.options
    errors.require_range("--seat", options.seat, 1, variants.parse(options.variant).players)
    errors.require_range("--sims", options.sims, 1, _SIMS_MAX)
    workload, spec = _find_workload(context)
    assert isinstance(workload, HasBoard)
    opponent, seed = _find_opponent(context, workload, spec), options.seed
    seed = SystemRandom().getrandbits(63) if seed is None else seed

    def choose(board: Board, ply: int) -> int:
        seed_here = seed_of(seed, ply)
        return workload.choose(spec.name, board, opponent.model, opponent.baseline, options.sims, seed_here)

    board = workload.board(spec.name)
    try:
        choose(board, 0)  # an unusable opponent is named before the person has typed anything
    except ValueError as error:
        others = f"; its baselines are {', '.join(spec.baselines) or 'none'}" if opponent.baseline else ""
        raise errors.SettingsError("--model", opponent.title, f"{error}{others}") from error
    print(f"{spec.name} against {opponent.title}; you have seat {options.seat} of {spec.players}.")
    try:
        TerminalGame(board, options.seat - 1, choose, sys.stdin, sys.stdout).play()
    except KeyboardInterrupt:
        print("\ninterrupted")
    return Output(value=None, text="")


COMMAND = Command(arguments=_arguments, prepare=_prepare, json_help=None)
