"""Command: what a command of ``ringrift`` declares, and the one runner that carries it out."""

import argparse
import asyncio
import json
import sys
import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import SystemRandom
from tempfile import TemporaryFile
from typing import Any

import msgspec

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cli.faults import fault_lines, machine_faults, nearest
from ringrift.cluster.roster import Roster
from ringrift.environment import EffectiveSettings, read_settings
from ringrift.events.base import Envelope, Event
from ringrift.kernel.clock import Clock, SystemClock
from ringrift.kernel.errors import SettingsError, StoreError, Unreachable
from ringrift.kernel.exit_codes import ExitCode
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import SETTING_TYPES, Settings, StoreSettings
from ringrift.kernel.value import Value
from ringrift.kernel.variant import parse as parse_variant
from ringrift.pipeline.line import LINES, Line, require_line
from ringrift.store.open import open_store, store_exists
from ringrift.store.ports import Reads, Store, Tx

Parser = argparse.ArgumentParser
EXIT_FAILED = ExitCode.FAILED


class Output(Value):
    """The output of a command: *value* with ``--json`` and *text* without, and how it exits."""

    value: Any
    text: str
    code: int = 0


@dataclass(frozen=True)
class Context:
    """The input of a command: its options, the settings in force, the clock, and the store once it is open."""

    options: argparse.Namespace
    effective: EffectiveSettings
    clock: Clock
    opened: Store | None = None
    faults: Sequence[str] = ()  # what keeps this machine from working, for a command that names it

    @property
    def settings(self) -> Settings:
        return self.effective.settings

    @property
    def store(self) -> Store:
        """The open store; only a *question* may use it."""
        assert self.opened is not None, "the store is open only while a question is asked"
        return self.opened

    @property
    def roster(self) -> Roster:
        """The nodes of the open store."""
        return Roster(self.store, self.clock, self.settings.cluster.beat_seconds)

    def envelopes(self, node: str = "") -> EnvelopeFactory:
        """Envelopes for events that an operator publishes through *node*, or through that of the settings."""
        return EnvelopeFactory(node or self.settings.node.id, self.clock, Ids(self.clock, SystemRandom()))

    async def publish(self, tx: Tx, event: Event) -> Envelope:
        """Publish *event* for the operator."""
        [envelope] = await tx.append([self.envelopes().make(event, source="cli")])
        return envelope

    async def lines(self, view: Reads) -> list[Line]:
        """The line of ``--variant``, else every line.  Raises UnknownName for a variant without one."""
        variant = self.options.variant
        return await LINES.all(view) if variant is None else [await require_line(view, variant)]

    def print(self, value: Any, text: str) -> None:
        """Print one of many outputs: a line of JSON with ``--json``, else *text*."""
        print(json.dumps(msgspec.to_builtins(value)) if self.options.json else text, flush=True)


_Question = Callable[[Context], Awaitable[Output | None]]


def by_verb(questions: Mapping[str, _Question]) -> _Question:
    """The question that the argument *verb* names."""
    return lambda context: questions[context.options.verb](context)


class Command(Value):
    """A command, declared as ``COMMAND`` in its module, whose first line is its description."""

    arguments: Callable[[Parser], None] = lambda _: None
    prepare: Callable[[Context], Output | None] = lambda _: None  # checks options, without a store; it may answer
    question: _Question | None = None  # if *prepare* has no answer: asked of the store, which must exist
    json_help: str | None = "print JSON"  # the help of ``--json``; None: the command has no such option
    names_faults: bool = False  # it begins with the faults of this machine, also if they keep the store from opening
    starts_node: bool = False  # first it warns on stderr of variables without effect, and checks that it can write
    endless: bool = False  # it may print line by line until Ctrl-C, which is its normal end, with exit code 0


def run(command: Command, options: argparse.Namespace) -> int:
    """Carry out *command* and print its output; the exit code.  Raises RingriftError."""
    if (variant := getattr(options, "variant", None)) is not None:
        parse_variant(variant)  # before the store is opened: the form is the same everywhere
    effective = read_settings(file=options.settings, overrides=parse_overrides(options.set))
    if command.starts_node:
        for warning in effective.warnings:
            print(f"ringrift: warning: {warning}", file=sys.stderr)
        _require_writable(effective)
    # Before the store is open: what is looked at may be the reason why it cannot be opened.
    faults = machine_faults(effective.settings.store) if command.names_faults else ()
    context = Context(options, effective, SystemClock(), faults=faults)
    try:
        output = command.prepare(context)
        if output is None and command.question is not None:
            output = asyncio.run(_ask(command.question, context))
    except StoreError as error:
        if not faults:
            raise
        text = "\n".join([*fault_lines(faults), f"ringrift: {error}"])
        output = Output(value={"faults": faults, "error": str(error)}, text=text, code=EXIT_FAILED)
    except KeyboardInterrupt:
        if command.endless:
            return 0
        raise
    if output is None:
        return 0
    text = output.text
    if command.json_help is not None and options.json:
        text = json.dumps(msgspec.to_builtins(output.value), indent=None if command.endless else 2)
    if text:
        print(text)
    return output.code


def _require_writable(effective: EffectiveSettings) -> None:
    """Raise SettingsError if no file can be made where a node will write; nothing is left there."""
    settings = effective.settings
    places = {"RINGRIFT_HOME": effective.home, "blobs.folder": settings.blobs.folder}
    for key, folder in (places | {"store.path": str(Path(settings.store.path).parent)}).items():
        try:
            TemporaryFile(dir=nearest(Path(folder))).close()
        except OSError as error:
            raise SettingsError(key, folder, f"cannot write there: {error.strerror}") from error


async def _ask(question: _Question, context: Context) -> Output | None:
    async with open_existing(context.settings.store) as store:
        return await question(replace(context, opened=store))


@asynccontextmanager
async def open_existing(settings: StoreSettings) -> AsyncIterator[Store]:
    """The store of *settings*, neither created nor migrated.  Raises Unreachable, SchemaTooOld, SchemaTooNew."""
    if not store_exists(settings):
        raise Unreachable(f'no store at {settings.path}: start one with "ringrift run", or set RINGRIFT_HOME')
    async with open_store(settings, SystemClock(), existing=True) as store:
        yield store


def parse_overrides(pairs: Sequence[str]) -> dict[str, object]:
    """``["work.slots=4"]`` as settings: TOML values, and text without quotes.  Raises SettingsError."""
    for pair in pairs:
        if pair.find("=") < 1:
            raise SettingsError("--set", pair, "must be KEY=VALUE")
    return {key: _read_value(key, text) for key, _, text in (pair.partition("=") for pair in pairs)}


def _read_value(key: str, text: str) -> object:
    """*text* as TOML; as it is where it is none, or where the setting *key* is text and it has no quotes."""
    try:
        tree = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):  # also a number of thousands of digits
        return text
    is_text = SETTING_TYPES.get(key) is str and not isinstance(tree["value"], str)
    return text if is_text or len(tree) > 1 else tree["value"]
