"""Installation: the wheels work in a clean venv outside the repository, as the container file and the unit use them."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.scratch import ROOT, copy

CONTAINERFILE = ROOT / "deploy" / "Containerfile"
UNIT = ROOT / "deploy" / "ringrift.service"
BUILD_SECONDS_MAX = 900.0
RUN_SECONDS_MAX = 120.0
# Of the steps of the container file these are for an image alone: they change the machine.
ONLY_IMAGE = ("useradd",)


def run(*words: str | Path, folder: Path, seconds: float = RUN_SECONDS_MAX, code: int = 0, **environ: str) -> str:
    """The output of a program that must end with *code*, run in *folder* without anything of this repository."""
    strange = ("RINGRIFT_", "PYTEST_", "PYTHONPATH", "VIRTUAL_ENV")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(strange)}
    line = [str(word) for word in words]
    ended = subprocess.run(
        line,
        cwd=folder,
        env={**clean, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
    )
    assert ended.returncode == code, f"{shlex.join(line)}:\n{ended.stdout[-3000:]}"
    return ended.stdout


def steps() -> list[str]:
    """The commands of the container file, in order."""
    text = CONTAINERFILE.read_text(encoding="utf-8").replace("\\\n", " ")
    return re.findall(r"^RUN (.+)$", text, re.MULTILINE)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheels of both distributions, built from what git tracks by the first step of the container file."""
    folder = tmp_path_factory.mktemp("wheels")
    root = copy(folder)
    link = root / "packaging" / "compat" / "src"
    link.symlink_to("../../src")
    places = {"/wheels": str(folder / "wheels"), "/src": str(root)}
    run(*_placed(steps()[0], places), folder=folder, seconds=BUILD_SECONDS_MAX)
    return folder / "wheels"


def _placed(step: str, places: dict[str, str]) -> list[str]:
    """The words of *step*, with this machine's folders instead of the image's, and its wheels by name."""
    words = []
    for word in shlex.split(step):
        place = next((name for name in places if word == name or word.startswith(f"{name}/")), "")
        path = places[place] + word.removeprefix(place) if place else sys.executable if word == "python" else word
        words += map(str, sorted(Path(path).parent.glob(Path(path).name))) if "*" in path else [path]
    return words


@pytest.fixture(scope="module")
def core(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a clean venv with the core's wheel alone, installed as a user would."""
    folder = tmp_path_factory.mktemp("core")
    run(sys.executable, "-m", "venv", folder / "venv", folder=folder)
    [wheel] = wheels.glob("ringrift-*.whl")
    run(folder / "venv" / "bin" / "pip", "install", wheel, folder=folder, seconds=BUILD_SECONDS_MAX)
    return folder / "venv" / "bin"


@pytest.fixture(scope="module")
def image(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a clean venv made by the steps of the container file: with training and the documented API."""
    folder = tmp_path_factory.mktemp("image")
    places = {
        "/wheels": str(wheels),
        "/opt/ringrift": str(folder / "venv"),
        "/requirements": str(ROOT / "requirements"),
    }
    for step in steps()[1:]:
        if not step.startswith(ONLY_IMAGE):
            run(*_placed(step, places), folder=folder, seconds=BUILD_SECONDS_MAX)
    return folder / "venv" / "bin"


@pytest.mark.timeout(BUILD_SECONDS_MAX)
def test_the_wheels_hold_what_is_not_python(wheels: Path, core: Path) -> None:
    """The report's page, the store's SQL and the template of a game are in the wheel; tests and examples are not."""
    [wheel] = wheels.glob("ringrift-*.whl")
    listed = run(sys.executable, "-m", "zipfile", "-l", wheel, folder=core)

    data = ("cli/report.html", "cli/sentences.toml", "store/sqlite/queries.sql", "cli/template/workload.py.txt")
    for name in (*data, "workload/kit.py"):
        assert f"ringrift/{name}" in listed
    assert "ringrift_reversi/workload.py" in listed
    assert "tests/" not in listed
    assert "examples/" not in listed


@pytest.mark.timeout(BUILD_SECONDS_MAX)
def test_the_core_works_outside_the_repository(core: Path, tmp_path: Path) -> None:
    """Version, module, completion, a turn of the loop, a new game; a game that needs more packages says which."""
    home = {"RINGRIFT_HOME": str(tmp_path / "home")}

    version = run(core / "ringrift", "--version", folder=tmp_path)
    module = run(core / "python", "-m", "ringrift", "--version", folder=tmp_path)
    script = run(core / "ringrift", "completion", "bash", folder=tmp_path, **home)
    looped = run(
        *(core / "ringrift", "run", "--iterations", "1", "--variants", "hex8_2p"),
        *("--set", "work.workload=fake", "--set", "policy.games_per_export=100", "--set", "policy.gate.elo_0=-200"),
        *("--set", "policy.gate.elo_1=0", "--set", "policy.gate.blocks_min=4"),
        folder=tmp_path,
        **home,
    )
    poor = run(core / "ringrift", "play", "square8_2p", "--model", "random", folder=tmp_path, code=1, **home)
    run(core / "ringrift", "new-workload", "nim", folder=tmp_path, **home)
    run(core / "pip", "install", "--no-deps", tmp_path / "nim", folder=tmp_path, seconds=BUILD_SECONDS_MAX)
    own = run(core / "python", "-m", "ringrift.workload.conformance", "nim", "nim_2p", folder=tmp_path)

    assert re.fullmatch(r"ringrift \d+\.\d+\.\d+\n", version)
    assert module == version
    assert "complete -o default -F _ringrift ringrift" in script
    assert "hex8_2p" in looped
    assert str(ROOT) not in run(core / "python", "-c", "import ringrift; print(ringrift.__file__)", folder=tmp_path)
    assert "numpy, numba, torch, safetensors not installed; install: pip install 'ringrift[train]'" in poor
    assert own == "nim nim_2p: conforms\n"
    assert "numpy" not in run(core / "pip", "list", folder=tmp_path)


@pytest.mark.timeout(BUILD_SECONDS_MAX)
def test_the_steps_of_the_container_file_make_a_working_node(image: Path, tmp_path: Path) -> None:
    """With training and the documented API: the bundled game can be played, the old import paths are there."""
    home = {"RINGRIFT_HOME": str(tmp_path / "home"), "NUMBA_CACHE_DIR": str(tmp_path / "numba")}

    run(image / "pip", "check", folder=tmp_path)
    played = run(
        *(image / "ringrift", "play", "hex8_2p", "--model", "random", "--seat", "2"),
        folder=tmp_path,
        seconds=BUILD_SECONDS_MAX,  # numba compiles the rules first
        **home,
    )
    old = "from app.coordination.event_router import publish; print(publish.__name__)"
    doctor = run(image / "ringrift", "doctor", folder=tmp_path, **home)

    assert "seat 1 plays " in played
    assert run(image / "python", "-c", old, folder=tmp_path, **home) == "publish\n"
    assert "reversi" in doctor
    assert str(ROOT) not in run(image / "python", "-c", "import app; print(app.__file__)", folder=tmp_path)


def test_the_container_file_ends_with_a_command_that_exists() -> None:
    """It starts a node, not as root, and stops it by SIGTERM; one of its steps is for an image alone."""
    from ringrift.cli.main import _COMMANDS

    text = CONTAINERFILE.read_text(encoding="utf-8")

    assert 'ENTRYPOINT ["ringrift"]\nCMD ["node"]\n' in text
    assert "node" in _COMMANDS
    assert "\nUSER ringrift\n" in text
    assert "STOPSIGNAL SIGTERM" in text
    assert len([step for step in steps() if step.startswith(ONLY_IMAGE)]) == 1
    assert len(steps()) == 7


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """``systemd-analyze verify`` finds nothing in the unit; its program is replaced by one that is here."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed here: the unit is not verified")
    text = UNIT.read_text(encoding="utf-8")
    program = "/opt/ringrift/bin/ringrift"
    unit = tmp_path / "ringrift.service"
    unit.write_text(text.replace(program, str(Path(sys.executable).with_name("ringrift"))))
    broken = tmp_path / "broken.service"
    broken.write_text(unit.read_text().replace("Restart=on-failure", "Restart=perhaps"))

    verified = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60)
    refused = subprocess.run(["systemd-analyze", "verify", str(broken)], capture_output=True, text=True, timeout=60)

    assert f"ExecStart={program} node\n" in text
    assert (verified.returncode, verified.stderr) == (0, "")
    assert "perhaps" in refused.stderr
