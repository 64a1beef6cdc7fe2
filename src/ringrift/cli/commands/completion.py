"""Print a script that completes commands and options in bash, zsh or fish."""

import argparse
from collections.abc import Iterator
from importlib.resources import files

from ringrift.cli.command import Command, Context, Output, Parser

_SHELLS = ("bash", "zsh", "fish")
_TEMPLATES = files("ringrift.cli") / "template"


def _arguments(parser: Parser) -> None:
    parser.add_argument("shell", choices=_SHELLS, help="the script's first line says where to put it")


def _words(parser: Parser) -> Iterator[tuple[str, str]]:
    """Every word that may follow a command: options with their help, and verbs where there is a choice."""
    for action in parser._actions:
        if action.option_strings:
            yield from ((option, (action.help or "").partition(" (")[0]) for option in action.option_strings)
        else:
            yield from ((str(choice), "") for choice in action.choices or ())


def _quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "’") + "'"


def _fish_word(command: str, word: str, help: str) -> str:
    flag = f"-l {word[2:]}" if word.startswith("--") else f"-s {word[1:]}" if word.startswith("-") else f"-a {word}"
    return f"complete -c ringrift -n '__fish_seen_subcommand_from {command}' {flag} -d {_quote(help)}"


def _script(shell: str, top: Parser) -> str:
    """The script for *shell*: its template, filled with what the parser *top* has."""
    [commands] = [action for action in top._actions if isinstance(action, argparse._SubParsersAction)]
    texts = {choice.dest: choice.help or "" for choice in commands._choices_actions}
    words = {name: dict(_words(child)) for name, child in commands.choices.items()}
    if shell == "bash":
        names, cases = " ".join(words), [f"    {name}) words='{' '.join(words[name])}' ;;" for name in words]
    elif shell == "zsh":
        names = "\n".join(f"    {_quote(f'{name}:{text}')}" for name, text in texts.items())
        cases = [f"    {name}) compadd -- {' '.join(words[name])} ;;" for name in words]
    else:
        start = "complete -c ringrift -n __fish_use_subcommand -f"
        names = "\n".join(f"{start} -a {name} -d {_quote(text)}" for name, text in texts.items())
        cases = [_fish_word(name, word, help) for name in words for word, help in words[name].items()]
    template = (_TEMPLATES / f"completion.{shell}.txt").read_text("utf-8").rstrip()
    return template.replace("@NAMES@", names).replace("@CASES@", "\n".join(cases))


def _prepare(context: Context) -> Output:
    from ringrift.cli.main import build_parser  # it imports this module to know its arguments

    return Output(value=None, text=_script(context.options.shell, build_parser()))


COMMAND = Command(arguments=_arguments, prepare=_prepare, json_help=None)
