"""A game that is an external program, named in the settings: the loop trains it like any other."""

import sys
from pathlib import Path

from e2e.processes import QUICK, Home
from ringrift.workload import fake
from unit.workload.test_executable import PLUGIN


def test_the_loop_goes_round_with_an_executable(home: Home, tmp_path: Path) -> None:
    """One promotion with every job done by an external program under a worker; no process is left running."""
    script = tmp_path / "plugin.py"
    script.write_text(PLUGIN.replace("SOURCE", repr(str(Path(fake.__file__).parents[2]))))
    command = [sys.executable, "-I", "-S", str(script)]
    plugin = f"[workloads.mine]\ncommand = {command}\n"
    (home.path / "ringrift.toml").write_text(QUICK.replace('"fake"', '"mine"') + plugin)

    code, output = home.run("run", "--iterations", "1", "--variants", "hex8_2p", seconds=110)

    assert code == 0, output[-3000:]
    assert "workload mine" in output
    assert home.lines()["hex8_2p"].workload == "mine"
    assert home.orphans() == []
