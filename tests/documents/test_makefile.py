"""The Makefile: setting up shows what it does, and cleaning up keeps what runs have made."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def commands(*targets: str) -> list[str]:
    """The commands that ``make`` would run if nothing had been made yet."""
    line = ["make", "--no-print-directory", "--dry-run", "--always-make", *targets]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()


def test_cleaning_keeps_data(tmp_path: Path) -> None:
    """What set-up made goes, what runs made stays: tried on a folder of its own."""
    for name in (".venv", ".mypy_cache", "data", "src"):
        (tmp_path / name).mkdir()

    subprocess.run(["make", "-f", str(ROOT / "Makefile"), "clean"], cwd=tmp_path, check=True, timeout=60)

    assert {path.name for path in tmp_path.iterdir()} == {"data", "src"}


def test_setting_up_shows_progress() -> None:
    """Every step is announced by a line of its own, and no download is silent."""
    lines = commands("setup")
    installs = [place for place, line in enumerate(lines) if "pip install" in line]

    assert len(installs) == 4
    for number, place in enumerate(installs, 1):
        assert f"set-up {number} of 4: " in lines[place - 1]
        assert "--progress-bar on" in lines[place]
        assert " -q" not in lines[place]
