"""Whether a node fits a job follows from what the node has reported, and each misfit has its reason."""

import asyncio
from pathlib import Path

import pytest

from ringrift.cluster.facts import FactsMeter, NodeFacts, _Gpu, _parse_gpus, _price
from ringrift.cluster.placement import Offer, find_misfit, load_offer, merge_labels, missing_workloads, set_labels
from ringrift.cluster.roster import NodeRecord
from ringrift.kernel.errors import SettingsError
from ringrift.kernel.settings import Requirement, Settings
from unit.work.world import World, play

FACTS = NodeFacts(
    cores=8,
    memory_bytes=32 * 10**9,
    gpus=(_Gpu(name="NVIDIA H100 PCIe", memory_bytes=80 * 10**9),),
    python="3.12",
    disk_free_bytes=10**12,
    workloads=("fake",),
)
OFFER = Offer(id="n", facts=FACTS, labels={"zone": "attic"})
SMALL = Offer(id="n", facts=NodeFacts(cores=1, memory_bytes=10**9, python="3.12"))


@pytest.mark.parametrize(
    ("required", "reason"),
    [
        ({}, ""),
        ({"device": "cpu"}, ""),
        ({"device": "gpu"}, "it has no GPU, gpu is needed"),
        ({"device": "h100"}, "it has no GPU, h100 is needed"),
        ({"memory_gb": 1.0}, ""),
        ({"memory_gb": 32}, "it has 1 GB of memory, 32 GB are needed"),
        ({"gpu_memory_gb": 80}, "it has 0 GB of gpu memory, 80 GB are needed"),
        ({"disk_gb": 5}, "it has 0 GB of free disk, 5 GB are needed"),
        ({"zone": "attic"}, "its label zone is not set, attic is needed"),
        ({"memory_gb": 1, "zone": "attic"}, "its label zone is not set, attic is needed"),
    ],
)
def test_what_is_missing_is_named(required: Requirement, reason: str) -> None:
    """The large node fits all of it."""
    assert find_misfit(SMALL, required) == reason
    assert find_misfit(OFFER, required) == ""


def test_another_gpu_and_another_label_do_not_fit() -> None:
    """The reason says what is there instead."""
    assert find_misfit(OFFER, {"device": "a100"}) == "it has NVIDIA H100 PCIe, a100 is needed"
    assert find_misfit(OFFER, {"zone": "cellar"}) == "its label zone is attic, cellar is needed"


@pytest.mark.parametrize("offer", [None, Offer(id="n")])
def test_a_node_that_has_not_reported_fits_only_what_needs_nothing(offer: Offer | None) -> None:
    """Nothing is known of it."""
    assert find_misfit(offer, {"device": "cpu"}) == "it has not reported yet what it can run"
    assert find_misfit(offer, {}) == ""


def test_workloads_are_those_that_it_lists() -> None:
    """A node that lists none at all is not asked."""
    assert set(missing_workloads(OFFER, ["fake", "chess"])) == {"chess"}
    assert missing_workloads(SMALL, ["fake", "chess"]) == {}


def test_labels_of_an_operator_win(tmp_path: Path) -> None:
    """They stay while the node sends its own with every heartbeat; an empty one takes a label away."""

    async def story(world: World) -> None:
        own = {"zone": "attic", "owner": "anna"}
        async with world.store.begin() as tx:
            await set_labels(tx, "n", {"zone": "cellar", "owner": "", "tier": "1"})
            await set_labels(tx, "n", {"tier": "2"})
        await world.roster.put(NodeRecord(id="n", profile="full", address="", beat=1, labels=own))

        async with world.store.read() as view:
            offer = await load_offer(view, "n")
            assert await load_offer(view, "m") is None
        assert offer is not None
        assert offer.labels == {"zone": "cellar", "tier": "2"}
        assert merge_labels(own, None) == own

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("name", "value"), [("memory_gb", "much"), ("memory_gb", -1), ("gpu_memory_gb", float("nan")), ("zone", "")]
)
def test_a_requirement_that_cannot_be_met_by_mistake_is_refused(name: str, value: object) -> None:
    """With the key of the setting."""
    with pytest.raises(SettingsError, match=f"work.requires.train.{name}"):
        Settings().overlaid({"work.requires": {"train": {name: value}}})


def test_facts_are_measured(tmp_path: Path) -> None:
    """The folder need not exist yet; labels give what a machine cannot know about itself; a simulated node has none."""
    meter = FactsMeter(str(tmp_path / "not" / "there"), {"price": "1.5", "provider": "attic"}, lambda: ["b", "a"])
    assert not meter.facts.is_measured

    asyncio.run(meter.measure())

    facts = meter.facts
    assert (facts.workloads, facts.price, facts.provider) == (("a", "b"), 1.5, "attic")
    assert min(facts.cores, facts.memory_bytes, facts.disk_free_bytes) > 0
    assert facts.versions["ringrift"]
    assert FactsMeter("", {}, None).facts == NodeFacts(python="simulated")


def test_gpus_are_read_from_the_list_of_the_driver() -> None:
    """What is no line of the list is left out."""
    text = "NVIDIA H200, 143771\nTesla, T4 (rev 2), 15360\n\nFailed to initialize NVML\nX, [N/A]\n"

    assert _parse_gpus(text) == (
        _Gpu(name="NVIDIA H200", memory_bytes=143771 << 20),
        _Gpu(name="Tesla, T4 (rev 2)", memory_bytes=15360 << 20),
    )


@pytest.mark.parametrize("text", ["", "cheap", "-1", "nan", "inf"])
def test_a_price_that_is_none_is_zero(text: str) -> None:
    """A label is free text."""
    assert _price(text) == 0.0
