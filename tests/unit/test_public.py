"""The public names of the package are complete, and importing them costs next to nothing."""

import subprocess
import sys

import pytest

import ringrift

LOOK = "import sys, ringrift; print('\\n'.join(sorted(sys.modules)))"
HEAVY = {"numpy", "torch", "numba", "apsw", "starlette", "uvicorn", "msgspec", "asyncio", "nats", "asyncpg"}


def test_importing_the_package_loads_nothing_heavy() -> None:
    """``import ringrift`` brings in no engine, no web server, no event loop and no part of its own."""
    output = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, timeout=30, check=True)
    loaded = set(output.stdout.split())

    assert "ringrift" in loaded
    assert not {name for name in loaded if name.split(".")[0] in HEAVY}
    assert {name for name in loaded if name.startswith("ringrift.")} == set()


@pytest.mark.parametrize("name", ringrift.__all__)
def test_every_public_name_resolves(name: str) -> None:
    """Every listed name exists, under its own name."""
    value = getattr(ringrift, name)

    assert name == "__version__" or value.__name__ == name


def test_the_list_of_public_names_is_complete_and_sorted() -> None:
    """Every lazily resolved name is listed, and nothing is listed twice."""
    assert ringrift.__all__ == sorted([*ringrift._PUBLIC, "__version__"])


def test_an_unknown_attribute_lists_the_valid_names() -> None:
    """The error for a misspelt name lists the existing ones."""
    with pytest.raises(AttributeError) as absent:
        _ = ringrift.Nodes

    text = str(absent.value)
    assert "'Nodes'" in text
    assert all(name in text for name in ringrift._PUBLIC)
