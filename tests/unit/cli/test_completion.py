"""Shell completion: generated from the parser, so it has every command and option, and the shells accept it."""

import argparse
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ringrift.cli.main import build_parser, call

SHELLS = ("bash", "zsh", "fish")
SECONDS_MAX = 60.0


@pytest.fixture
def scripts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[[str], Path]:
    """Writes the script for a shell into a file."""

    def write(shell: str) -> Path:
        assert call(["completion", shell]) == 0
        file = tmp_path / f"ringrift.{shell}"
        file.write_text(capsys.readouterr().out)
        return file

    return write


def bash(file: Path, *words: str) -> list[str]:
    """What bash offers for the last of *words*."""
    line = f'source {file}; COMP_WORDS=(ringrift "$@"); COMP_CWORD=$#; _ringrift; printf \'%s\\n\' "${{COMPREPLY[@]}}"'
    output = subprocess.run(["bash", "-c", line, "bash", *words], capture_output=True, text=True, timeout=SECONDS_MAX)
    assert output.stderr == ""
    return output.stdout.split()


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_and_option_is_in_the_script(shell: str, scripts: Callable[[str], Path]) -> None:
    """Whatever the parser has, also verbs."""
    text = scripts(shell).read_text()
    [commands] = [action for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction)]

    for name, child in commands.choices.items():
        assert name in text
        options = [word for action in child._actions for word in action.option_strings if word.startswith("--")]
        assert all((f"-l {word[2:]} " if shell == "fish" else word) in text for word in options)
    assert "rollback" in text


def test_bash_completes(scripts: Callable[[str], Path]) -> None:
    """Commands first, then the options and verbs of the command, wherever it stands in the line."""
    file = scripts("bash")

    assert bash(file, "pla") == ["play"]
    assert bash(file, "new-") == ["new-workload"]
    assert bash(file, "play", "--sea") == ["--seat"]
    assert bash(file, "play", "square8_2p", "--seat", "1", "--si") == ["--sims"]
    assert bash(file, "models", "roll") == ["rollback"]
    assert bash(file, "--ver") == ["--version"]
    assert bash(file, "nonsense", "--") == []


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_accepts_its_script(shell: str, scripts: Callable[[str], Path], tmp_path: Path) -> None:
    """It is read without an error, by each shell that is installed here."""
    file = scripts(shell)
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed here")
    lines = {
        "bash": f"source {file}",
        "zsh": f"autoload -U compinit; compinit -u -d {tmp_path}/dump; source {file}; whence _ringrift",
        "fish": f"source {file}; complete -C 'ringrift models roll' | grep rollback",
    }

    ended = subprocess.run(
        [shell, "-c", lines[shell]],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
    )

    assert (ended.returncode, ended.stderr) == (0, "")
