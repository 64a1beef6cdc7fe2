"""The core stands alone: without the documented API it imports, and its tests pass."""

import shutil
from pathlib import Path

import pytest

from e2e.scratch import copy, run

COMPAT = ("src/ringrift_compat", "src/app", "tests/compat", "packaging/compat")


@pytest.mark.timeout(600)
def test_the_core_passes_its_tests_without_the_documented_api(tmp_path: Path) -> None:
    """In a copy without ringrift_compat and app every other test can be collected, and the unit tests pass."""
    root = copy(tmp_path)
    for path in COMPAT:
        shutil.rmtree(root / path)

    absent, _ = run(root, "-c", "import ringrift_compat")
    collected = run(root, "-m", "pytest", "-q", "--collect-only", "tests/contract", "tests/simulation", "tests/e2e")
    passed = run(root, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "tests/unit")

    assert absent == 1
    assert collected[0] == 0, collected[1]
    assert passed[0] == 0, passed[1]
