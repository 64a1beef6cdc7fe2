"""Play against the champion of a variant, another model or a baseline in the terminal."""

import asyncio
import sys
from pathlib import Path
from random import SystemRandom

from ringrift.blobs.folder import FolderBlobs
from ringrift.cli.command import Command, Context, Output, Parser, open_existing
from ringrift.cli.formats import short
from ringrift.cluster.roster import NODES
from ringrift.kernel import errors
from ringrift.kernel import variant as variants
from ringrift.kernel.ids import check_blob
from ringrift.kernel.settings import StoreSettings
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


async def _stored(store: StoreSettings, blob: str | None, variant: str, workload: str) -> tuple[str, bytes]:
    """*blob*, or the champion of *variant*, and its bytes from any node that has it whole.

    Raises NoChampion, TransferError, Unreachable.
    """
    async with open_existing(store) as opened, opened.read() as view:
        line, nodes = await LINES.get(view, variant), await NODES.all(view)
    if blob is None:
        if line is None or line.champion is None:
            raise errors.NoChampion(variant, f"{variant} has no champion yet")
        if line.workload != workload:
            raise errors.NoChampion(
                variant, f"the champion of {variant} is a model of {line.workload}, not of {workload}"
            )
        blob = line.champion
    failure = errors.TransferError(f"no node has {short(blob)}")
    for node in nodes:
        try:
            return blob, b"".join([chunk async for chunk in FolderBlobs(node.address, node.id).read(blob)])
        except errors.TransferError as error:
            failure = error
    raise failure


def _opponent(context: Context, workload: Workload) -> tuple[str, bytes | None]:
    """The opponent's title and model; a baseline has no model.  Raises NoChampion, SettingsError, TransferError."""
    name, variant = context.options.model, context.options.variant
    if name is not None and Path(name).is_file():
        return name, read_model(Path(name))
    if name is not None and len(name) != 64:
        return name, None
    blob = None if name is None else check_blob(name)
    blob, content = asyncio.run(_stored(context.settings.store, blob, variant, workload.name))
    return name or f"champion {short(blob)}", content


def _prepare(context: Context) -> Output:
    """Play one game.  Raises InputError, NoChampion, SettingsError, UnknownName."""
    options, work = context.options, context.settings.work
    errors.require_range("--seat", options.seat, 1, variants.parse(options.variant).players)
    registry = Registry.load(work.executables)
    workloads = (registry.get(name) for name in dict.fromkeys((work.workload, *registry.makers)))
    workload = next((workload for workload in workloads if isinstance(workload, HasTerminal)), None)
    if workload is None:
        raise errors.InputError("no installed workload can be played in a terminal: pip install 'ringrift[train]'")
    if missing := missing_requirements(workload):
        install = f": {workload.install_command}" if isinstance(workload, HasRequirements) else ""
        raise errors.RingriftError(f"{', '.join(missing)} not installed{install}")
    errors.require_name("variant", options.variant, [spec.name for spec in workload.variants()])
    opponent, model = _opponent(context, workload)
    seed = SystemRandom().getrandbits(63)
    game = TerminalGame(options.variant, options.seat - 1, opponent, model, options.sims, seed)
    try:
        workload.play_in_terminal(game, sys.stdin, sys.stdout)
    except ValueError as error:
        raise errors.SettingsError("--model", opponent, str(error)) from error
    return Output(value=None, text="")


COMMAND = Command(arguments=_arguments, prepare=_prepare, json_help=None)
