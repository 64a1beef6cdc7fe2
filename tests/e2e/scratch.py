"""A scratch copy of the repository, to try in it what would be wrong in the repository itself."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RUN_SECONDS_MAX = 600.0
# Loaded into every Python of the copy before anything else: the packages of the repository itself are not there.
_ONLY_COPY = """
import sys
from pathlib import Path
here = str(Path(__file__).resolve().parents[1] / "src")
sys.path[:] = [here, *(path for path in sys.path if path != {original!r})]
"""


def copy(folder: Path) -> Path:
    """The files that git tracks or would track, copied below *folder*; the root of the copy."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    root = folder / "copy"
    for name in listed.stdout.split("\0"):
        path = ROOT / name
        if name and path.is_file() and not path.is_symlink():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, root / name)
    hook = root / "only-copy" / "sitecustomize.py"
    hook.parent.mkdir()
    hook.write_text(_ONLY_COPY.format(original=str(ROOT / "src")))
    return root


def run(root: Path, *line: str) -> tuple[int, str]:
    """Run Python with *line* in the copy at *root*; its exit code and its last output."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("RINGRIFT_", "PYTEST_"))}
    environ["PYTHONPATH"] = os.pathsep.join(map(str, (root / "only-copy", root / "src")))
    ended = subprocess.run(
        [sys.executable, *line], cwd=root, env=environ, capture_output=True, text=True, timeout=RUN_SECONDS_MAX
    )
    return ended.returncode, (ended.stdout + ended.stderr)[-4000:]
