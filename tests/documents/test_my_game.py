"""The page *My game in 60 lines*: its blocks are one module, which is the template, and which conforms."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "6-my-game.md"
TEMPLATE = ROOT / "src" / "ringrift" / "cli" / "template" / "workload.py.txt"
LINES_MAX = 60
SECONDS_MAX = 100.0


def tool(name: str) -> ModuleType:
    """A module of the folder tools."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def blocks(language: str) -> list[str]:
    """The blocks of the page in *language*."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def squeezed(text: str) -> list[str]:
    """The lines of *text* that are not blank."""
    return [line for line in text.splitlines() if line.strip()]


def test_the_page_has_sixty_lines_of_code() -> None:
    """Without blank lines, comments and docstrings, as the script counts them."""
    assert 0 < tool("count_glue").code_lines("\n".join(blocks("python"))) <= LINES_MAX


def test_the_page_is_the_template() -> None:
    """What the page explains is what ``ringrift new-workload nim`` writes."""
    template = TEMPLATE.read_text(encoding="utf-8").replace("NAME", "nim").replace("CLASS", "NimGame")

    assert squeezed("\n".join(blocks("python"))) == squeezed(template)


def test_the_game_of_the_page_conforms(tmp_path: Path) -> None:
    """With its module and its entry point as the page has them, the documented command finds nothing."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "nim.py").write_text("\n".join(blocks("python")))
    [project] = blocks("toml")
    (package / "pyproject.toml").write_text(project)
    environ = tool("as_installed").environment(package, tmp_path / "site", os.environ)

    command = [sys.executable, "-m", "ringrift.workload.conformance", "nim", "nim_2p"]
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=SECONDS_MAX)

    assert (ended.returncode, ended.stdout) == (0, "nim nim_2p: conforms\n"), ended.stderr
    assert ended.stdout in "\n".join(blocks("console"))
