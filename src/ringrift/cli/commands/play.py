"""Play against the champion of a variant, another model or a baseline in the terminal."""

import asyncio
import sys
from pathlib import Path
from random import SystemRandom

from ringrift.blobs.folder import FolderBlobs
from ringrift.cli.command import Command, Context, Output, Parser, open_existing
from ringrift.cli.formats import short
from ringrift.cluster.roster import NODES
from ringrift.kernel import variant as variants
from ringrift.kernel.errors import InputError, NoChampion, RingriftError, SettingsError, TransferError, require_range
from ringrift.kernel.ids import check_blob
from ringrift.kernel.settings import Settings, WorkSettings
from ringrift.pipeline.inbox import read_model
from ringrift.pipeline.line import LINES
from ringrift.workload.api import HasRequirements, HasTerminal, TerminalGame, Workload, missing_requirements
from ringrift.workload.registry import Registry


def _arguments(parser: Parser) -> None:
    add = parser.add_argument
    add("variant", help="e.g. square8_2p")
    add("--seat", type=int, default=1, metavar="N", help="your seat, from 1 (default 1)")
    add("--sims", type=int, default=64, metavar="N", help="simulations for each move of the opponent (default 64)")
    add("--model", metavar="NAME", help="a model's file or hash, or a baseline such as uct:200 (default: the champion)")


def _playable(work: WorkSettings) -> Workload:
    """The configured workload if it can be played in a terminal, else the first one that can.  Raises InputError."""
    registry = Registry.load(work.executables)
    for name in dict.fromkeys((work.workload, *registry.names())):
        workload = registry.get(name)
        if isinstance(workload, HasTerminal):
            return workload
    raise InputError("no installed workload can be played in a terminal: pip install 'ringrift[train]'")


async def _champion(settings: Settings, variant: str, workload: str) -> tuple[str, bytes]:
    """The champion of *variant* and its bytes.  Raises NoChampion, Unreachable."""
    async with open_existing(settings.store) as store, store.read() as view:
        line = await LINES.get(view, variant)
    if line is None or line.champion is None:
        raise NoChampion(variant, f"{variant} has no champion yet")
    if line.workload != workload:
        raise NoChampion(variant, f"the champion of {variant} is a model of {line.workload}, not of {workload}")
    return line.champion, await _blob(settings, line.champion)


async def _blob(settings: Settings, blob: str) -> bytes:
    """The bytes of *blob*, from any node of the store that has it whole.  Raises TransferError."""
    async with open_existing(settings.store) as store, store.read() as view:
        nodes = await NODES.all(view)
    failure = TransferError(f"no node has {short(blob)}")
    for node in nodes:
        try:
            return b"".join([chunk async for chunk in FolderBlobs(node.address).read(blob)])
        except TransferError as error:
            failure = error
    raise failure


def _opponent(context: Context, workload: Workload) -> tuple[str, bytes | None]:
    """The opponent's title and model; a baseline has no model.  Raises NoChampion, SettingsError, TransferError."""
    settings, name = context.settings, context.options.model
    if name is None:
        blob, content = asyncio.run(_champion(settings, context.options.variant, workload.name))
        return f"champion {short(blob)}", content
    if Path(name).is_file():
        return name, read_model(Path(name))
    return name, asyncio.run(_blob(settings, check_blob(name))) if len(name) == 64 else None


def _prepare(context: Context) -> Output:
    """Play one game.  Raises InputError, NoChampion, SettingsError, UnknownName."""
    options = context.options
    players = variants.parse(options.variant).players
    require_range("--seat", options.seat, 1, players)
    workload = _playable(context.settings.work)
    assert isinstance(workload, HasTerminal)
    if missing := missing_requirements(workload):
        install = f": {workload.install_command}" if isinstance(workload, HasRequirements) else ""
        raise RingriftError(f"{', '.join(missing)} not installed{install}")
    variants.require(options.variant, [spec.name for spec in workload.variants()])
    opponent, model = _opponent(context, workload)
    seed = SystemRandom().getrandbits(63)
    game = TerminalGame(options.variant, options.seat - 1, opponent, model, options.sims, seed)
    try:
        workload.play_in_terminal(game, sys.stdin, sys.stdout)
    except ValueError as error:
        raise SettingsError("--model", opponent, str(error)) from error
    return Output(value=None, text="")


COMMAND = Command(arguments=_arguments, prepare=_prepare, json_help=None)
