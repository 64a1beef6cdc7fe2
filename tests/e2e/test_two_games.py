"""Two games in one store: each line has its own workload and settings, and a run touches only its variants."""

import json
import signal
from pathlib import Path

import msgspec
import pytest

from e2e.processes import PATIENCE_SECONDS, QUICK, Home, reached
from ringrift.pipeline.line import Line

CHESS = """
from ringrift.workload.api import VariantSpec
from ringrift.workload.fake import Fake

class Chess(Fake):
    name = "chess"
    version = "VERSION"

    def variants(self):
        return (VariantSpec("chess_2p", 2, 64, 1e-6, baselines=("random",)),)
"""
PLAIN = QUICK.replace('workload = "fake"\n', "")
assert PLAIN != QUICK
VERDICT = "SELECT 1 FROM records WHERE kind = 'verdict' AND id"


def install(folder: Path, version: str = "1", source: str = CHESS) -> None:
    """Make the other game a package that is installed in *folder*."""
    metadata = folder / "chess_game-1.0.dist-info"
    metadata.mkdir(parents=True, exist_ok=True)
    (folder / "chess_game.py").write_text(source.replace("VERSION", version))
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: chess_game\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[ringrift.workloads]\nchess = chess_game:Chess\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with installed packages: the other game is one of them."""
    install(tmp_path / "site")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    return tmp_path / "site"


def unchanged(line: Line) -> Line:
    """*line* without what a stop may add."""
    return msgspec.structs.replace(line, since=0.0)


def decisions(home: Home, variant: str) -> list[dict[str, object]]:
    """Every decision ever taken about *variant*."""
    rows = home.ask("SELECT body FROM records WHERE kind = 'decision'")
    bodies = [json.loads(bytes(body).rpartition(b"#")[0]) for (body,) in rows]
    return [body for body in bodies if body["variant"] == variant]


def test_two_games_live_in_one_store(home: Home, site: Path) -> None:
    """Each goes on with its own workload, whatever a run was started with, and rests while a run works on the other."""
    (home.path / "ringrift.toml").write_text(PLAIN)
    first = home.run("run", "--set", "work.workload=fake", "--variants", "hex8_2p", "--iterations", "1")
    assert first[0] == 0, first[1]
    begun, taken = home.lines()["hex8_2p"], decisions(home, "hex8_2p")

    code, output = home.run("run", "--variants", "chess_2p", "--iterations", "1")

    assert code == 0, output
    assert "hex8_2p: at rest during this run" in output
    assert unchanged(home.lines()["hex8_2p"]) == unchanged(begun)
    assert decisions(home, "hex8_2p") == taken
    assert {line.variant: line.workload for line in home.lines().values()} == {"hex8_2p": "fake", "chess_2p": "chess"}

    code, output = home.run(
        "run", "--set", "work.workload=chess", "--variants", "hex8_2p,chess_2p", "--iterations", "1"
    )

    assert code == 0, output
    assert {line.variant: line.iteration for line in home.lines().values()} == {"hex8_2p": 2, "chess_2p": 2}
    assert {decision["kind"] for decision in decisions(home, "hex8_2p")} == {"promotion"}
    assert home.ask("SELECT count(*) FROM records WHERE kind = 'run_states' AND body LIKE '%chess%'") == [(0,)]
    workers = home.ask("SELECT DISTINCT variant, workload FROM origins WHERE kind = 'model' ORDER BY variant")
    assert workers == [("chess_2p", "chess"), ("hex8_2p", "fake")]


def test_a_game_that_is_not_installed_waits(home: Home, site: Path) -> None:
    """The other goes on; why names the reason; nothing is lost, rejected or begun again; alone it is refused."""
    (home.path / "ringrift.toml").write_text(PLAIN)
    both = ("--variants", "hex8_2p,chess_2p", "--iterations", "1")
    first = home.run("run", "--set", "work.workload=fake", *both)
    assert first[0] == 0, first[1]
    begun, taken = home.lines()["chess_2p"], decisions(home, "chess_2p")
    (site / "chess_game.py").write_text("raise RuntimeError('half written')")

    process = home.start("run", "--variants", "hex8_2p,chess_2p", "--iterations", "0")
    reached(process, lambda: home.has(f"{VERDICT} LIKE 'chess_2p:claim.play%'"))
    _, why = home.run("why", "chess_2p")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_SECONDS)
    code, output = home.run("run", *both)
    alone, refused = home.run("run", "--variants", "chess_2p")

    reason = "workload chess cannot run here: the plug-in does not load: RuntimeError: half written"
    assert code == 0, output
    assert f"chess_2p waits: {reason}" in output
    assert home.lines()["hex8_2p"].iteration >= 2
    line = home.lines()["chess_2p"]
    assert (line.champion, line.iteration, line.counts.lost) == (begun.champion, begun.iteration, begun.counts.lost)
    assert decisions(home, "chess_2p") == taken
    assert "cannot run workload chess" in why
    assert (alone, reason in refused) == (2, True), refused

    install(site)
    code, output = home.run("run", "--variants", "chess_2p", "--iterations", "2")

    assert code == 0, output
    assert home.lines()["chess_2p"].iteration >= 2


STRICT = (
    CHESS
    + """
    def run(self, job, ctx):
        from ringrift.workload.api import Refused
        for blobs in job.inputs.values():
            for blob in blobs:
                raise Refused(f"{blob} is of another version", blob)
        return super().run(job, ctx)
"""
)


def test_what_another_version_has_made_is_never_lost(home: Home, site: Path) -> None:
    """A version that reads nothing of the one before demotes no champion and loses no batch: its jobs wait."""
    (home.path / "ringrift.toml").write_text(PLAIN)
    words = ("run", "--variants", "chess_2p", "--iterations", "1")
    first = home.run(*words)
    assert first[0] == 0, first[1]
    begun, taken = home.lines()["chess_2p"], decisions(home, "chess_2p")
    install(site, version="2", source=STRICT)

    process = home.start("run", "--variants", "chess_2p", "--iterations", "0", "--minutes", "0")
    reached(process, lambda: home.has(f"{VERDICT} = 'chess_2p:read.play'"))
    _, why = home.run("why", "--all", "chess_2p")
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=PATIENCE_SECONDS)

    line = home.lines()["chess_2p"]
    assert process.returncode == 143, output
    assert (line.champion, line.generation, line.counts.lost) == (begun.champion, begun.generation, begun.counts.lost)
    assert decisions(home, "chess_2p") == taken
    assert "made by chess 1, not readable by chess 2" in why

    install(site)
    code, output = home.run("run", "--variants", "chess_2p", "--iterations", "1", "--minutes", "0")

    assert code == 0, output
    assert home.lines()["chess_2p"].iteration > begun.iteration
