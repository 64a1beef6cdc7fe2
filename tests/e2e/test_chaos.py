"""A minute of the chaos run (``make chaos`` runs an hour): faults of real processes, disks and clocks, by seed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SECONDS, SEED = 60, 3
RUN_SECONDS_MAX = 900.0


@pytest.mark.timeout(RUN_SECONDS_MAX + 60)
def test_a_minute_of_faults_loses_nothing_and_every_line_goes_on(tmp_path: Path) -> None:
    """Three nodes and two programs under drawn faults keep every promise, and status names each fault."""
    command = [sys.executable, "-m", "chaos.run", "--seconds", str(SECONDS), "--seed", str(SEED)]
    done = subprocess.run(
        [*command, "--folder", str(tmp_path / "chaos")],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
