"""Screens: makes the pictures of docs/screens from a real run on this machine.

    .venv/bin/python -m tools.screens [--minutes M] [--out docs/screens]

It runs the bundled game until it has two champions and tests a candidate, or for M minutes; it takes the live view at
150 and at 80 columns, ``why``, and the report page; then it lets a run fail, for ``why`` and ``jobs show``.  Each
screen is written as text and as SVG, drawn by the terminal emulation in ``tools/terminal.py``; the page also as PNG
where ``chromium`` is installed.  Look at the pictures before you commit them.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tools.terminal import Session, Terminal

ROOT = Path(__file__).resolve().parents[1]
_PROGRAM = str(Path(sys.executable).with_name("ringrift"))
_WIDE, _NARROW = (150, 28), (80, 28)
_BROKEN = '''"""A workload with a mistake in its training, to show what one sees of it."""

from ringrift.workload.fake import Fake


class Broken(Fake):
    """The fake workload, but its training divides by the number of its layers, which is 0."""

    name = "broken"

    def run(self, job, ctx):
        return self.train(job, ctx, layers=0) if job.stage == "train" else super().run(job, ctx)

    def train(self, job, ctx, layers):
        width = 64 // layers
        return super().run(job, ctx)
'''
_ENTRY = "[ringrift.workloads]\nbroken = ringrift_broken:Broken\n"
_METADATA = "Metadata-Version: 2.1\nName: ringrift-broken\nVersion: 1\n"
_CHROMIUM = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
_CHROMIUM += ["--disable-component-update", "--disable-sync", "--hide-scrollbars", "--force-color-profile=srgb"]


class Studio:
    """A home in a temporary folder, and the folder that screens are written to."""

    def __init__(self, home: Path, out: Path, **variables: str) -> None:
        self.home, self.out = home, out
        # A short name for the home: the path of a temporary folder would be most of the picture.
        environ = {**os.environ, "RINGRIFT_HOME": "data", "RINGRIFT_NODE_ID": "a", "TERM": "xterm", **variables}
        self._environ = {name: text for name, text in environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}

    def start(self, *words: str, size: tuple[int, int] = _WIDE) -> Session:
        """Start ``ringrift`` with *words* on a terminal."""
        return Session([_PROGRAM, *words], self._environ, columns=size[0], lines=size[1], folder=str(self.home))

    def run(self, *words: str) -> Terminal:
        """The screen after ``ringrift`` with *words* has ended, with the command above it."""
        session = self.start(*words, size=(130, 60))
        session.screen.feed(f"$ ringrift {' '.join(words)}\r\n")
        session.wait(seconds=60.0)
        session.close()
        return session.screen

    def save(self, name: str, screen: Terminal, title: str) -> None:
        """Write *screen* as text and as a picture."""
        (self.out / f"{name}.txt").write_text(screen.text() + "\n")
        (self.out / f"{name}.svg").write_text(screen.svg(title))
        print(f"{name}: {title}")


def _try_until(session: Session, holds: Callable[[Terminal], bool], seconds: float) -> None:
    try:
        session.wait(holds, seconds)
    except TimeoutError:
        print("  not reached in time: the screen is taken as it is")


def _is_testing(screen: Terminal) -> bool:
    """Whether a candidate is tested and blocks of its test have been played."""
    return "test: LLR" in screen.text() and "LLR 0.00" not in screen.text()


def film_run(studio: Studio, words: Sequence[str], minutes: float) -> None:
    """The live view at both widths, why meanwhile and afterwards, and the report page."""
    session = studio.start("run", *words)
    _try_until(session, lambda screen: "generation 2 promoted" in screen.text(history=True), 60 * minutes)
    _try_until(session, lambda screen: _is_testing(screen) and "▁" in screen.text(), 60 * minutes)
    studio.save("live-150", session.screen, "The live view of ringrift run, 150 columns wide")
    session.resize(*_NARROW)
    before = len(session.output)
    _try_until(session, lambda _: session.output.count("Elo: over", before) >= 3, 10.0)
    _try_until(session, _is_testing, 120.0)
    studio.save("live-80", session.screen, "The same, 80 columns wide")
    studio.save("why", studio.run("why"), "ringrift why while the loop runs")
    session.type("\x03")
    session.wait(seconds=120.0)
    session.close()
    studio.save("why-stopped", studio.run("why"), "ringrift why when no run is going on")
    shutil.copyfile(studio.home / "data" / "report.html", studio.out / "report.html")
    print("report.html: the report page")


def film_failure(studio: Studio) -> None:
    """A run whose training fails: the live view, why, and jobs show with its traceback."""
    session = studio.start("run", "--set", "work.workload=broken", "--variants", "hex8_2p", "--iterations", "0")
    _try_until(session, lambda screen: "failed attempts: " in screen.text(), 60.0)
    text = session.screen.text(history=True)
    job = text.partition("ringrift jobs show ")[2].split()[0]
    studio.save("failing", session.screen, "The live view when the first job fails")
    studio.save("why-failing", studio.run("why", "hex8_2p"), "ringrift why when training fails")
    studio.save("jobs-show", studio.run("jobs", "show", job), "ringrift jobs show of a job that failed")
    session.type("\x03")
    session.wait(seconds=60.0)
    session.close()


def photograph(page: Path, picture: Path, folder: Path) -> None:
    """The page as a picture, if there is a browser."""
    browser = shutil.which("chromium")
    if browser is None:
        print("no chromium: the page has no picture")
        return
    place = [f"--user-data-dir={folder}", "--window-size=1000,2700", f"--screenshot={picture}", page.as_uri()]
    subprocess.run([browser, *_CHROMIUM, *place], check=True, capture_output=True, timeout=120)
    print(f"{picture.name}: the report page, as a browser shows it")


def main() -> None:
    """Make all screens."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="how long to wait for a champion (default 10)")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "screens")
    parser.add_argument("words", nargs="*", help="words for ringrift run, behind -- (default: square8_2p, no limit)")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    words = options.words or ["--variants", "square8_2p", "--minutes", "0", "--iterations", "0"]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name in ("run", "failure", "plugin/ringrift_broken-1.dist-info"):
            (place / name).mkdir(parents=True)
        film_run(Studio(place / "run", options.out), words, options.minutes)
        plugin = place / "plugin"
        (plugin / "ringrift_broken.py").write_text(_BROKEN)
        (plugin / "ringrift_broken-1.dist-info" / "entry_points.txt").write_text(_ENTRY)
        (plugin / "ringrift_broken-1.dist-info" / "METADATA").write_text(_METADATA)
        film_failure(Studio(place / "failure", options.out, PYTHONPATH=str(plugin)))
        photograph(options.out / "report.html", options.out / "report.png", place / "browser")


if __name__ == "__main__":
    main()
