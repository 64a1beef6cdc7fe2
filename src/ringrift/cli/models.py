"""``ringrift models``: list and show models, check one, try one again, go back to an earlier champion, take one in."""

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from random import SystemRandom
from typing import Any

import msgspec

from ringrift.blobs.folder import Folder
from ringrift.cli import life
from ringrift.cli.awaited import Followed, follow
from ringrift.cli.environment import effective
from ringrift.cli.show import short
from ringrift.cli.show import verdict as verdict_line
from ringrift.cli.store import by_hand, existing
from ringrift.cluster.roster import NodeRecord, Roster
from ringrift.events import model
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import InputError, Unreachable
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import Settings
from ringrift.kernel.value import Value
from ringrift.pipeline import byhand
from ringrift.pipeline.byhand import Asked, Hand
from ringrift.store.ports import Store
from ringrift.sync import ledger

FILE_BYTES_MAX = 512 * 1024 * 1024
EXIT_REFUSED = 1


class Answer(Value):
    """What a command prints, for people and as JSON, and how it exits."""

    text: str
    json: Any
    code: int = 0


async def show_list(store: Store, options: argparse.Namespace, settings: Settings) -> Answer:
    """Every model."""
    async with store.read() as view:
        rows = await life.listed(view, options.variant)
    return Answer(text=life.list_text(rows, SystemClock().now()), json=rows)


async def show_one(store: Store, options: argparse.Namespace, settings: Settings) -> Answer:
    """One model with its life, decisions and files."""
    async with store.read() as view:
        one = await life.shown(view, await byhand.find(view, _named(options), options.variant))
    return Answer(text=life.show_text(one), json=one)


async def roll_back(store: Store, options: argparse.Namespace, settings: Settings) -> Answer:
    """Let a line go back to an earlier champion."""
    async with store.begin() as tx:
        step = await byhand.roll_back(
            tx, _named(options), options.to, options.reason, policy=settings.policy, hand=_hand(settings)
        )
    [said] = [event for event in step.events if isinstance(event, model.RolledBack)]
    rejected = [one.model for one in step.models if one.state == "rejected"]
    text = (
        f"{said.variant} went back from {short(said.model)} to {short(said.to)} of generation {said.generation}; "
        "every node gets it now"
    )
    if rejected:
        text += f"\nthe candidate {short(rejected[0])}, which was tested against the other, is rejected"
    return Answer(text=text, json={"rolled_back": said, "rejected": rejected})


async def promote(store: Store, options: argparse.Namespace, settings: Settings) -> Answer:
    """Put a model up as a candidate: the gate decides, and nobody else."""
    async with store.begin() as tx:
        found = await byhand.find(tx, _named(options), options.variant)
        verdict, step = await byhand.put_up(tx, found, policy=settings.policy, hand=_hand(settings))
    if step is None:
        text = f"{found.variant}: {verdict_line(verdict, SystemClock().now())}"
        return Answer(text=text, json={"model": found.model, "verdict": verdict}, code=EXIT_REFUSED)
    text = (
        f"{short(found.model)} is a candidate of {found.variant} now: it is copied and checked, and then the gate "
        f"decides by a match against the champion {short(step.line.champion)} (ringrift why {found.variant})"
    )
    return Answer(text=text, json={"model": found.model, "verdict": verdict})


async def verify(store: Store, options: argparse.Namespace, settings: Settings) -> Answer:
    """Have a model checked, and wait for what comes of it."""
    async with store.begin() as tx:
        found = await byhand.find(tx, _named(options), options.variant)
        asked = await byhand.check(tx, found, hand=_hand(settings))
    followed = await _follow(store, asked, settings)
    if not followed.events:
        return _undone(f"{short(found.model)} of {found.variant}", followed, found.model)
    [said] = followed.events
    assert isinstance(said, model.Verified)
    text = f"{short(found.model)} of {found.variant} is sound: checked on {said.node}"
    return Answer(text=text, json={"model": found.model, "sound": True, "node": said.node})


async def take_in(store: Store, options: argparse.Namespace, settings: Settings) -> Answer:
    """Turn a file that comes from elsewhere into a model that can be put up, once."""
    if options.variant is None:
        raise InputError("of which variant?  ringrift models import FILE --variant NAME")
    data = model_bytes(Path(_named(options)))
    node = await _keeper(store, settings)
    file = Folder(node.address).put(data)
    async with store.begin() as tx:
        known = await byhand.imported_from(tx, options.variant, file)
        if known is not None:
            return _taken(options, known, file, again=True)
        await tx.put([ledger.holding(file, node.id)])
        asked = await byhand.take_in(tx, options.variant, file, hand=_hand(settings))
    followed = await _follow(store, asked, settings)
    if not followed.events:
        return _undone(str(options.name), followed, None)
    [said] = followed.events
    assert isinstance(said, model.Imported)
    return _taken(options, said.model, file, again=False)


def _taken(options: argparse.Namespace, made: str, file: str, *, again: bool) -> Answer:
    what = "is known already" if again else "is taken in and sound"
    text = (
        f"{options.name} {what}: it is the model {made} of {options.variant}\n"
        f"only a match makes it champion: put it up with  ringrift models promote {short(made)}"
    )
    return Answer(text=text, json={"model": made, "file": file, "again": again})


VERBS: dict[str, Callable[[Store, argparse.Namespace, Settings], Awaitable[Answer]]] = {
    "list": show_list, "show": show_one, "rollback": roll_back, "promote": promote, "verify": verify, "import": take_in,
}  # fmt: skip


def _named(options: argparse.Namespace) -> str:
    if not options.name:
        wanted = {"rollback": "VARIANT", "import": "FILE --variant NAME"}.get(options.verb, "MODEL")
        raise InputError(f"which one?  ringrift models {options.verb} {wanted}")
    return str(options.name)


def _hand(settings: Settings) -> Hand:
    clock = SystemClock()
    return Hand(scribe=by_hand(settings.node.id), ids=Ids(clock, SystemRandom()), now=clock.now())


def model_bytes(path: Path) -> bytes:
    """What the file at *path* holds.  Raises InputError unless it is one and of a size that a model can have."""
    try:
        if not path.is_file():
            raise InputError(f"{path} is no file")
        if not 0 < path.stat().st_size <= FILE_BYTES_MAX:
            raise InputError(f"{path} has {path.stat().st_size} bytes; a model has 1 … {FILE_BYTES_MAX}")
        return path.read_bytes()
    except OSError as unreadable:
        raise InputError(f"{path} cannot be read: {unreadable.strerror}") from unreadable


async def _keeper(store: Store, settings: Settings) -> NodeRecord:
    """A node that is here and keeps its blobs on this machine, from where others get the file.  Raises Unreachable."""
    present = await Roster(store, SystemClock(), settings.cluster.beat_seconds).present()
    here = [node for node in present if _is_here(node)]
    if not here:
        raise Unreachable("nobody is there to do it: no node that is here keeps its files on this machine")
    return min(here, key=lambda node: (node.id != settings.node.id, node.id))


def _is_here(node: NodeRecord) -> bool:
    return Path(node.address).is_dir()


async def _follow(store: Store, asked: Asked, settings: Settings) -> Followed:
    """Wait for what was *asked*, telling on stderr how it goes."""
    clock = SystemClock()
    roster = Roster(store, clock, settings.cluster.beat_seconds)

    def tell(text: str) -> None:
        print(f"{asked.job.kind()} {asked.job.variant}: {text}", file=sys.stderr)

    return await follow(store, roster, [asked.job], asked.after, clock, tell)


def _undone(what: str, followed: Followed, made: str | None) -> Answer:
    later = "; it stays asked for and will be done when a node runs" if followed.kept else ""
    text = f"{what}: {followed.error}{later}"
    return Answer(text=text, json={"model": made, "error": followed.error, "kept": followed.kept}, code=EXIT_REFUSED)


def main(options: argparse.Namespace, given: Mapping[str, object]) -> int:
    """Print what came of it; 0 if it was done, 1 if a gate or a check says no or nobody did it."""
    found = effective(file=options.settings, given=given)

    async def run() -> Answer:
        async with existing(found.settings.store) as store:
            return await VERBS[options.verb](store, options, found.settings)

    answer = asyncio.run(run())
    print(json.dumps(msgspec.to_builtins(answer.json), indent=2) if options.json else answer.text)
    return answer.code
