"""The power of the coordinator fails again and again while games arrive: no acknowledged game is lost.

Its home lies on a disk of its own; a cut loses every page that no process had asked to be written.  The workers run on.
"""

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import psutil
import pytest

from e2e.cluster_world import Answered, missing_results, read_answers
from e2e.power import make_disk
from e2e.processes import PATIENCE_SECONDS, QUICK, Home
from e2e.test_join import ISLAND, make_token, serve
from e2e.test_kills import assert_counted_once
from wait import until

CUTS = int(os.environ.get("RINGRIFT_POWER_CUTS", "5"))
WORKERS = ("w1", "w2")
RECORDED = """import sys
sys.path.insert(0, {tests!r})
from e2e.cluster_record import record_acknowledgements
from ringrift.cli.main import main
record_acknowledgements({path!r})
main(sys.argv[1:])"""


def join(home: Home, name: str, *arguments: str) -> None:
    """Start a worker that records what was acknowledged to it."""
    tests, path = str(Path(__file__).parents[1]), str(home.path / "acknowledged")
    home.launch(RECORDED.format(tests=tests, path=path), "join", *arguments, "--set", f"node.id={name}")


@pytest.mark.timeout(120 + 20 * CUTS)
def test_no_acknowledged_game_is_lost_by_power_cuts(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """After each cut every result that a worker had acknowledged is done, with whole files, and counts once."""
    rng, homes = Random(CUTS), {name: Home(tmp_path / name, ISLAND) for name in WORKERS}

    def answers() -> dict[str, list[Answered]]:
        return {name: read_answers(home.path) for name, home in homes.items()}

    def count() -> int:
        return sum(bool(row.blobs) for rows in answers().values() for row in rows)

    with make_disk(tmp_path) as disk:
        coordinator = Home(disk.folder / "c", QUICK)
        try:
            process, address = serve(coordinator)
            for name, home in homes.items():
                (home.path / "token").write_text(make_token(coordinator))
                join(home, name, address, "--token-file", str(home.path / "token"))
            for _ in range(CUTS):
                enough = count() + rng.randint(1, 8)
                until(lambda: count() >= enough, PATIENCE_SECONDS)  # noqa: B023 - it is called in this round only
                children = psutil.Process(process.pid).children(recursive=True)
                disk.lose_power([process.pid, *(child.pid for child in children)])
                before = answers()
                process, _ = serve(coordinator, int(address.rpartition(":")[2]))
                assert missing_results(coordinator, before) == []
                assert coordinator.unbalanced() == []
            assert_counted_once(coordinator)
            record_property("acknowledged batches", count())
        finally:
            for home in (coordinator, *homes.values()):
                home.clear()
