"""The public face of the package is complete, and costs next to nothing to look at."""

import subprocess
import sys

import pytest

import ringrift

LOOK = "import sys, ringrift; print('\\n'.join(sorted(sys.modules)))"
HEAVY = {"numpy", "torch", "numba", "apsw", "starlette", "uvicorn", "msgspec", "asyncio", "nats", "asyncpg"}


def test_importing_the_package_loads_nothing_heavy() -> None:
    """``import ringrift`` brings in no engine, no web server, no event loop and no part of its own."""
    shown = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, timeout=30, check=True)
    loaded = set(shown.stdout.split())

    assert "ringrift" in loaded
    assert not {name for name in loaded if name.split(".")[0] in HEAVY}
    assert {name for name in loaded if name.startswith("ringrift.")} == set()


@pytest.mark.parametrize("name", ringrift.__all__)
def test_every_public_name_resolves(name: str) -> None:
    """What is listed is there, under its own name."""
    found = getattr(ringrift, name)

    assert name == "__version__" or found.__name__ == name


def test_the_list_of_public_names_is_complete_and_sorted() -> None:
    """Every name that is looked up is listed, and nothing is listed twice."""
    assert ringrift.__all__ == sorted([*ringrift._PUBLIC, "__version__"])


def test_an_unknown_attribute_lists_what_there_is() -> None:
    """Who misspells a name sees those that exist."""
    with pytest.raises(AttributeError) as absent:
        _ = ringrift.Nodes

    text = str(absent.value)
    assert "'Nodes'" in text
    assert all(name in text for name in ringrift._PUBLIC)
