"""Run a command as if the package of a folder were installed, without installing it.

python tools/as_installed.py FOLDER COMMAND …: the modules of FOLDER are on the path, and its entry points are known.
"""

import os
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path


def write_metadata(package: Path, site: Path) -> None:
    """Write into *site* what an installer would write there about the project in *package*."""
    project = tomllib.loads((package / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    folder = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    folder.mkdir(parents=True)
    head = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (folder / "METADATA").write_text(head, encoding="utf-8")
    groups = project.get("entry-points", {})
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in groups[group].items()) for group in groups
    ]
    (folder / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")


def environment(package: Path, site: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """*environ* in which the package is importable and its entry points are known."""
    write_metadata(package, site)
    path = [str(package.absolute()), str(site.absolute()), *filter(None, [environ.get("PYTHONPATH")])]
    return {**environ, "PYTHONPATH": os.pathsep.join(path)}


def main() -> int:
    """Run the command; its exit code."""
    import subprocess

    folder, *command = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="ringrift-") as site:
        return subprocess.run(command, env=environment(Path(folder), Path(site), os.environ)).returncode


if __name__ == "__main__":
    sys.exit(main())
