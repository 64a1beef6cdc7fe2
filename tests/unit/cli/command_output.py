"""Asking: commands on a store that the test has open, from the words of their command line on."""

from ringrift.cli.command import Context, Output
from ringrift.cli.main import _load, build_parser
from ringrift.environment import read_settings
from ringrift.kernel.clock import Clock, SystemClock
from ringrift.store.ports import Store

NODE = "here"


def context(store: Store | None, *words: str, clock: Clock | None = None) -> Context:
    """What the command of *words* works with."""
    effective = read_settings({"RINGRIFT_HOME": "/nowhere", "RINGRIFT_NODE_ID": NODE})
    options = build_parser(words[0]).parse_args(words)
    return Context(options=options, effective=effective, clock=clock or SystemClock(), opened=store)


async def ask(store: Store, *words: str, clock: Clock | None = None) -> Output:
    """The output of the command of *words*."""
    command, command_context = _load(words[0]), context(store, *words, clock=clock)
    output = command.prepare(command_context)
    if output is None and command.question is not None:
        output = await command.question(command_context)
    assert output is not None
    return output
