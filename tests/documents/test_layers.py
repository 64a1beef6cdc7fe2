"""The bootstrap has the coordinators of the documents, each in its layer."""

import re

import pytest

from documents import seeds
from ringrift_compat.coordinators.registry import COORDINATOR_REGISTRY

ROW = re.compile(r"^\| (\d) +\| (.+?) +\|", re.MULTILINE)
NAME = re.compile(r"`(\w+)`")


@pytest.mark.skipif(not seeds.documents(), reason=f"the documents are not there: {seeds.FOLDER} is empty")
def test_every_coordinator_of_the_documents_is_in_its_layer() -> None:
    """The table of layers, name by name; beside them there are only those of the events, which come first."""
    table = seeds.documents()[2].read_text().split("### Initialization Order")[1].split("## 5.")[0]
    layers = {name: int(layer) for layer, names in ROW.findall(table) for name in NAME.findall(names)}

    assert len(layers) > 20
    assert {name: spec.layer for name, spec in COORDINATOR_REGISTRY.items() if spec.layer} == layers
