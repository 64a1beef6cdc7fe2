"""One runner carries out every command: settings, store, JSON, exit code."""

import json
from argparse import Namespace
from pathlib import Path

import pytest

from ringrift.cli.command import Command, Context, Output, run
from ringrift.cli.main import _COMMANDS, _load, build_parser
from ringrift.kernel.errors import SettingsError, Unreachable


def options(tmp_path: Path, *, as_json: bool = False, settings: tuple[str, ...] = ()) -> Namespace:
    """A command line with these *settings* and a store that does not exist."""
    pairs = [f"store.path={tmp_path / 'none.db'}", *settings]
    return Namespace(settings=None, set=pairs, json=as_json)


@pytest.mark.parametrize("name", _COMMANDS)
def test_every_command_describes_itself(name: str) -> None:
    """In one sentence, and every argument has a help."""
    description = _COMMANDS[name]

    assert description[0].isupper()
    assert description.endswith(".")
    assert _load(name).prepare or _load(name).question
    [commands] = [action for action in build_parser(name)._actions if action.dest == "command"]
    assert commands.choices is not None
    child = commands.choices[name]  # type: ignore[call-overload]  # a mapping, which the type of choices does not say
    assert [action.dest for action in child._actions if not action.help] == []


def test_an_answer_of_prepare_is_printed_without_a_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As text, or as JSON with --json; the exit code is that of the output."""
    command = Command(prepare=lambda context: Output(value={"slots": context.settings.work.slots}, text="four", code=3))

    assert run(command, options(tmp_path, settings=("work.slots=4",))) == 3
    assert capsys.readouterr().out == "four\n"
    assert run(command, options(tmp_path, as_json=True, settings=("work.slots=4",))) == 3
    assert json.loads(capsys.readouterr().out) == {"slots": 4}


def test_a_question_needs_a_store_that_exists(tmp_path: Path) -> None:
    """Otherwise the error says how to start one, and nothing is created."""

    async def question(context: Context) -> Output:
        raise AssertionError(context.store)

    with pytest.raises(Unreachable, match=r'no store at .*: start one with "ringrift run", or set RINGRIFT_HOME'):
        run(Command(question=question), options(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_is_the_normal_end_of_an_endless_command(tmp_path: Path) -> None:
    """With exit code 0; another command is interrupted."""

    def interrupt(_: Context) -> Output:
        raise KeyboardInterrupt

    assert run(Command(prepare=interrupt, endless=True), options(tmp_path)) == 0
    with pytest.raises(KeyboardInterrupt):
        run(Command(prepare=interrupt), options(tmp_path))


@pytest.mark.parametrize("pair", ["work.slots", "=4"])
def test_a_setting_is_a_key_and_a_value(tmp_path: Path, pair: str) -> None:
    """Anything else is refused before the command runs."""
    with pytest.raises(SettingsError, match="must be KEY=VALUE"):
        run(Command(), options(tmp_path, settings=(pair,)))
