"""Settings refuse what cannot be, name the key, the value and the limit, and change nothing on the way."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest

from ringrift.kernel.errors import SettingsError, UnknownName
from ringrift.kernel.settings import PROFILES, Settings
from ringrift.kernel.value import Value

# Every range: the key, just too low, the lowest, the highest, just too high.
RANGES: list[tuple[str, float, float, float, float]] = [
    ("store.tx_seconds_max", 0.04, 0.05, 60, 60.1),
    ("store.waiting_max", 0, 1, 1_000_000, 1_000_001),
    ("store.log_events_max", 99, 100, 10**9, 10**9 + 1),
    ("store.detail_events_max", 99, 100, 10**9, 10**9 + 1),
    ("bus.lapse_seconds", 59, 60, 315_360_000, 315_360_001),
    ("bus.lapse_seen_seconds", 0.9, 1, 2_592_000, 2_592_001),
    ("bus.batch", 0, 1, 10_000, 10_001),
    ("bus.poll_seconds", 0.009, 0.01, 60, 60.1),
    ("bus.redeliver_seconds", 0.04, 0.05, 3600, 3601),
    ("cluster.beat_seconds", 0.04, 0.05, 600, 601),
    ("cluster.elect_seconds", 0.04, 0.05, 5.0, 200.1),
    ("cluster.role_seconds", 8.9, 9.0, 600, 601),
    ("cluster.watch_seconds", 0.04, 0.05, 3600, 3601),
    ("work.slots", 0, 1, 1024, 1025),
    ("work.lease_seconds", 0.1, 0.2, 3600, 3601),
    ("work.rescue_seconds", 0.04, 0.05, 600, 601),
    ("work.gauge_seconds", 0.04, 0.05, 600, 601),
    ("work.deadline_seconds", 0.4, 0.5, 604_800, 604_801),
    ("work.grace_seconds", -0.1, 0, 3600, 3601),
    ("work.jobs_per_child", 0, 1, 10**9, 10**9 + 1),
    ("work.child_growth_bytes_max", 0, 1, 10**15, 10**15 + 1),
    ("work.retry.first_seconds", -0.1, 0, 86_400, 86_401),
    ("work.retry.seconds_max", -0.1, 0, 604_800, 604_801),
    ("work.retry.tries", 0, 1, 10**6, 10**6 + 1),
    ("bus.redelivery.jitter", -0.1, 0, 10, 10.1),
    ("policy.games_per_batch", 0, 1, 10**6, 10**6 + 1),
    ("policy.games_per_export", 0, 1, 10**9, 10**9 + 1),
    ("policy.window_batches_max", 0, 1, 256, 257),
    ("policy.play_jobs_open", 0, 1, 10_000, 10_001),
    ("policy.blocks_per_job", 0, 1, 256, 257),
    ("policy.match_jobs_open", 0, 1, 1000, 1001),
    ("policy.iterations_max", 0, 1, 10**9, 10**9 + 1),
    ("policy.plateau_rejections", 1, 2, 10_000, 10_001),
    ("policy.stages.training_seconds_max", 0.9, 1, 31_536_000, 31_536_001),
    ("policy.gate.elo_0", -1001, -1000, 34, 1001),
    ("policy.gate.elo_1", -1001, 1, 1000, 1001),
    ("policy.gate.alpha", 0.0, 1e-6, 0.5, 0.51),
    ("policy.gate.beta", 0.0, 1e-6, 0.5, 0.51),
    ("policy.gate.blocks_min", 1, 2, 400, 10_001),
    ("policy.gate.blocks_max", 15, 16, 100_000, 100_001),
    ("replicas.copies_min", 0, 1, 100, 101),
    ("replicas.every_seconds", 0.04, 0.05, 86_400, 86_401),
    ("sweep.every_seconds", 0.9, 1, 604_800, 604_801),
    ("sweep.log_bytes_max", 1023, 1024, 10**10, 10**10 + 1),
    ("sweep.log_files_max", 0, 1, 100, 101),
]
# Numbers that no range bounds, each for a reason.
UNBOUNDED = {"policy.seed"}


def tree(key: str, value: object) -> dict[str, Any]:
    """The settings tree with only *key* in it."""
    for name in reversed(key.split(".")):
        value = {name: value}
    assert isinstance(value, dict)
    return value


def found(settings: object, key: str) -> object:
    """What *settings* have under *key*."""
    for name in key.split("."):
        settings = getattr(settings, name)
    return settings


def numbers(branch: Value, path: str = "") -> Iterator[str]:
    """The key of every number in the tree."""
    for field in msgspec.structs.fields(branch):
        value, key = getattr(branch, field.name), f"{path}{field.name}"
        if isinstance(value, Value):
            yield from numbers(value, f"{key}.")
        elif (isinstance(value, int | float) and not isinstance(value, bool)) or field.type == int | None:
            yield key


@pytest.mark.parametrize(("key", "low", "high"), [(key, low, high) for key, low, _, _, high in RANGES])
def test_a_value_out_of_range_names_key_value_and_limit(key: str, low: float, high: float) -> None:
    """One step outside a range is refused with everything that a person needs to put it right."""
    for wrong in (low, high):
        with pytest.raises(SettingsError) as refused:
            Settings().overlaid(tree(key, wrong))

        assert (refused.value.key, refused.value.value) == (key, wrong)
        assert str(refused.value) == f"setting {key} = {refused.value.value!r} is not valid: {refused.value.limit}"
        assert re.fullmatch(r"must lie between \S+ and \S+", refused.value.limit)


def test_the_edges_of_a_range_belong_to_it() -> None:
    """The lowest and the highest value that a range names are allowed."""
    for key, _, low, high, _ in RANGES:
        for good in (low, high):
            assert found(Settings().overlaid(tree(key, good)), key) == good


@pytest.mark.parametrize("key", sorted(set(numbers(Settings())) - UNBOUNDED))
def test_every_number_of_the_settings_has_a_range(key: str) -> None:
    """No number may be what is not a number, endless, or below what anybody can mean."""
    for wrong in ("nan", "inf", "-1e9"):
        with pytest.raises(SettingsError):
            Settings().overlaid(tree(key, wrong))


@pytest.mark.parametrize("key", ["node.idd", "nodes", "policy.gate.elo", "work.retry.first", "store.path.x"])
def test_an_unknown_key_is_named(key: str) -> None:
    """A key that does not exist is refused with its full name, and with those that do exist beside it."""
    with pytest.raises((UnknownName, SettingsError)) as refused:
        Settings().overlaid(tree(key, 1))

    assert key.removesuffix(".x") in str(refused.value)


def test_an_unknown_key_comes_with_the_known_ones() -> None:
    """Who misspells a key sees its neighbours."""
    with pytest.raises(UnknownName) as unknown:
        Settings().overlaid({"node": {"idd": "a"}})

    assert unknown.value.name == "node.idd"
    assert unknown.value.known == ("node.ephemeral", "node.id", "node.loops", "node.profile")


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("work.slots", "8", 8),
        ("work.lease_seconds", "1.5", 1.5),
        ("work.lease_seconds", "2", 2.0),
        ("node.ephemeral", "true", True),
        ("node.ephemeral", "0", False),
        ("node.id", "7", "7"),
        ("policy.iterations_max", "3", 3),
        ("bus.redelivery.tries", "9", 9),
        ("store.path", "/a/b.db", "/a/b.db"),
    ],
)
def test_text_becomes_what_the_key_holds(key: str, text: str, value: object) -> None:
    """Values from the environment are text and are read by the type of their key."""
    assert found(Settings().overlaid(tree(key, text)), key) == value


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("work.slots", "many"),
        ("work.slots", "1.5"),
        ("work.slots", 1.5),
        ("work.slots", True),
        ("work.slots", None),
        ("node.ephemeral", "perhaps"),
        ("node.ephemeral", 1),
        ("node.id", 7),
        ("policy", 5),
        ("policy.gate", "strict"),
        ("policy.variants", "hex8_2p"),
        ("work.params", {"x": [1]}),
    ],
)
def test_a_value_of_the_wrong_type_names_its_key(key: str, wrong: object) -> None:
    """What cannot be read as the type of its key is refused under that key, also inside a branch."""
    with pytest.raises(SettingsError) as refused:
        Settings().overlaid(tree(key, wrong))

    assert refused.value.key == key
    assert f"setting {key} = {wrong!r}" in str(refused.value)


def test_a_node_id_is_refused_like_every_setting() -> None:
    """A node id that cannot be one is a wrong setting: the key, the value and what it may be."""
    with pytest.raises(SettingsError) as refused:
        Settings().overlaid({"node": {"id": "a b"}})

    assert refused.value.key == "node.id"
    assert refused.value.limit


def test_an_unknown_profile_lists_the_known_ones() -> None:
    """Who misspells a profile sees all of them."""
    with pytest.raises(SettingsError) as refused:
        Settings().overlaid({"node": {"profile": "fulll"}})

    assert all(profile in str(refused.value) for profile in PROFILES)


def test_a_variant_cannot_be_named_twice() -> None:
    """One variant has one line."""
    with pytest.raises(SettingsError, match=r"policy\.variants"):
        Settings().overlaid({"policy": {"variants": ["hex8_2p", "hex8_2p"]}})


def test_the_bounds_of_the_gate_have_an_order() -> None:
    """The test needs two different hypotheses, the second above the first."""
    with pytest.raises(SettingsError, match=r"policy.gate.elo_1 = 5.* above elo_0 = 5"):
        Settings().overlaid({"policy": {"gate": {"elo_0": 5, "elo_1": 5}}})


@pytest.mark.parametrize(
    "wrong", [{"work": {"slots": 4, "lease_seconds": -1}}, {"work": {"slots": 4}, "nodes": {}}, {"bus": {"batch": "x"}}]
)
def test_nothing_changes_on_error(wrong: Mapping[str, Any]) -> None:
    """A tree with one wrong value leaves the settings as they were, also where its other values are good."""
    settings = Settings()
    before = msgspec.json.encode(settings)

    with pytest.raises((SettingsError, UnknownName)):
        settings.overlaid(wrong)

    assert msgspec.json.encode(settings) == before


def test_an_overlay_changes_only_what_it_names() -> None:
    """Values beside the named one, also in the same branch, stay as they were."""
    before = Settings.cloud("/home")

    after = before.overlaid({"policy": {"gate": {"alpha": 0.01}}})

    assert after.policy.gate.alpha == 0.01
    assert after.overlaid({"policy": {"gate": {"alpha": before.policy.gate.alpha}}}) == before


def test_presets_are_built_one_from_another() -> None:
    """lan is local with a second copy of everything; cloud is lan with longer times."""
    local, lan, cloud = (preset("/home", node="a") for preset in (Settings.local, Settings.lan, Settings.cloud))

    assert local.store.path == "/home/coordination/coordinator.db"
    assert local.blobs.folder == "/home/blobs"
    assert (local.node.id, local.replicas.copies_min) == ("a", 1)
    assert lan == msgspec.structs.replace(local, replicas=lan.replicas)
    assert lan.replicas.copies_min == 2
    assert cloud == msgspec.structs.replace(lan, cluster=cloud.cluster, work=cloud.work)
    assert cloud.work.lease_seconds > lan.work.lease_seconds


def test_a_setting_out_of_range_is_refused_without_an_overlay_too() -> None:
    """A branch checks itself whenever it is built, also as a changed copy."""
    with pytest.raises(SettingsError, match=r"work\.slots = 0 "):
        msgspec.structs.replace(Settings().work, slots=0)
