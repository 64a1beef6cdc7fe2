"""Settings refuse what cannot be, name the key, the value and the limit, and change nothing on the way."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest

from ringrift.kernel.errors import SettingsError, UnknownName
from ringrift.kernel.ranges import Branch, Range
from ringrift.kernel.settings import PROFILES, NodeSettings, Settings
from ringrift.kernel.value import Value

# Fields whose range another field of the branch narrows: their ends have a test of their own.
DEPENDENT = {"elect_seconds", "role_seconds", "elo_0", "elo_1", "blocks_min", "blocks_max"}


def tree(key: str, value: object) -> dict[str, Any]:
    """The settings tree with only *key* in it."""
    for name in reversed(key.split(".")):
        value = {name: value}
    assert isinstance(value, dict)
    return value


def value_of(settings: object, key: str) -> object:
    """The value of *settings* under *key*."""
    for name in key.split("."):
        settings = getattr(settings, name)
    return settings


def fields(branch: Value, path: str = "") -> Iterator[tuple[str, msgspec.structs.FieldInfo, Range | None]]:
    """The key, the field and the declared range of every leaf of the tree."""
    for field in msgspec.structs.fields(branch):
        value, key = getattr(branch, field.name), f"{path}{field.name}"
        if isinstance(value, Value):
            yield from fields(value, f"{key}.")
        else:
            yield key, field, branch.ranges().get(field.name) if isinstance(branch, Branch) else None


LEAVES = {key: (field, limits) for key, field, limits in fields(Settings())}
RANGES = {key: limits for key, (_, limits) in LEAVES.items() if limits is not None}


def is_number(key: str) -> bool:
    """Return whether the setting *key* is a number."""
    value, hint = value_of(Settings(), key), LEAVES[key][0].type
    return (isinstance(value, int | float) and not isinstance(value, bool)) or ("int" in str(hint) and value is None)


def step(limits: Range) -> float:
    """A distance that leads out of *limits* and shows in the message."""
    return 1 if float(limits.low).is_integer() and float(limits.high).is_integer() else limits.low / 2


@pytest.mark.parametrize("key", sorted(RANGES))
def test_a_value_out_of_its_range_names_key_value_and_range(key: str) -> None:
    """A value below or above the declared range is refused with everything that a person needs to correct it."""
    limits = RANGES[key]
    for value in (limits.low - step(limits), limits.high + step(limits)):
        with pytest.raises(SettingsError) as refused:
            Settings().overlaid(tree(key, value if value != int(value) else int(value)))

        assert (refused.value.key, refused.value.value) == (key, value)
        assert str(refused.value) == f"setting {key} = {refused.value.value!r} is not valid: {refused.value.limit}"
        assert re.fullmatch(r"must lie between \S+ and \S+", refused.value.limit)


@pytest.mark.parametrize("key", sorted(key for key in RANGES if key.rpartition(".")[2] not in DEPENDENT))
def test_ranges_are_inclusive(key: str) -> None:
    """The lowest and the highest value that a range declares are allowed."""
    for value in RANGES[key]:
        whole = int(value) if float(value).is_integer() else value
        assert value_of(Settings().overlaid(tree(key, whole)), key) == value


@pytest.mark.parametrize(
    ("branch", "allowed", "refused"),
    [
        ("cluster", {"elect_seconds": 3, "role_seconds": 9}, {"elect_seconds": 3, "role_seconds": 8.9}),
        ("policy.gate", {"blocks_min": 20, "blocks_max": 20}, {"blocks_min": 20, "blocks_max": 19}),
        ("policy.gate", {"elo_0": 5, "elo_1": 6}, {"elo_0": 5, "elo_1": 5}),
    ],
)
def test_a_range_that_depends_on_another_field(branch: str, allowed: dict[str, Any], refused: dict[str, Any]) -> None:
    """The second field is refused by its name, and its lowest value is allowed."""
    assert Settings().overlaid(tree(branch, allowed)) != Settings()
    with pytest.raises(SettingsError) as error:
        Settings().overlaid(tree(branch, refused))
    assert error.value.key == f"{branch}.{list(refused)[1]}"


def test_every_number_of_the_settings_has_a_range() -> None:
    """No number is unbounded or below a sensible minimum."""
    assert {key for key in LEAVES if is_number(key)} - RANGES.keys() == set()


@pytest.mark.parametrize("key", sorted(RANGES))
def test_no_number_is_endless_or_not_a_number(key: str) -> None:
    """Text from the environment that reads as infinite or as no number is refused."""
    for value in ("nan", "inf", "-inf"):
        with pytest.raises(SettingsError):
            Settings().overlaid(tree(key, value))


@pytest.mark.parametrize("key", sorted(LEAVES))
def test_a_value_of_no_possible_type_names_its_key(key: str) -> None:
    """No setting is a list of objects."""
    with pytest.raises(SettingsError) as refused:
        Settings().overlaid(tree(key, [object()]))

    assert refused.value.key == key


@pytest.mark.parametrize("key", ["node.idd", "nodes", "policy.gate.elo", "work.retry.first", "store.path.x"])
def test_an_unknown_key_is_named(key: str) -> None:
    """A key that does not exist is refused with its full name, and with those that do exist beside it."""
    with pytest.raises((UnknownName, SettingsError)) as refused:
        Settings().overlaid(tree(key, 1))

    assert key.removesuffix(".x") in str(refused.value)


@pytest.mark.parametrize(
    ("key", "close"), [("node.idd", "node.id"), ("slots", "work.slots"), ("polcy.gate.elo_1", "policy.gate.elo_1")]
)
def test_an_unknown_key_suggests_the_close_ones(key: str, close: str) -> None:
    """The error for a misspelt key, or for one without its branch, names what was probably intended."""
    with pytest.raises(
        UnknownName, match=rf"unknown setting '{key.partition('.')[0]}.*did you mean .*{close}"
    ) as error:
        Settings().overlaid(tree(key, "a"))

    assert close in error.value.names


def test_a_key_that_is_a_value_and_a_branch_is_refused() -> None:
    """Two settings that cannot both hold are named, whichever comes first."""
    for values in ({"work": 1, "work.slots": 2}, {"work.slots": 2, "work.slots.x": 2}):
        with pytest.raises(SettingsError, match="itself is set to"):
            Settings().overlaid(values)


def test_the_entries_of_a_table_are_set_one_by_one() -> None:
    """A job parameter leaves the others as they were."""
    before = Settings().overlaid({"work.params": {"sims": 32}})

    assert before.overlaid({"work.params.lr": 0.1}).work.params == {"sims": 32, "lr": 0.1}


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("work.slots", "many", "must be a whole number"),
        ("cluster.beat_seconds", "soon", "must be a number"),
        ("node.ephemeral", 1, "must be true or false"),
        ("policy.variants", "hex8_2p", 'must be a list of text, e.g. ["a", "b"]'),
        ("work.params", {"x": [1]}, "must be a table whose values are text, a whole number, a number or true or false"),
        ("policy.gate", "strict", "must be a table of settings"),
        ("policy.iterations_max", "x", "must be a whole number"),
    ],
)
def test_a_value_of_another_type_says_which_type_is_expected(key: str, value: object, words: str) -> None:
    """In words, not in those of a library."""
    with pytest.raises(SettingsError) as refused:
        Settings().overlaid(tree(key, value))

    assert refused.value.limit == words


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
def test_text_is_converted_to_the_type_of_the_key(key: str, text: str, value: object) -> None:
    """Values from the environment are text and are read by the type of their key."""
    assert value_of(Settings().overlaid(tree(key, text)), key) == value


@pytest.mark.parametrize(
    ("key", "value"),
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
def test_a_value_of_the_wrong_type_names_its_key(key: str, value: object) -> None:
    """A value that cannot be read as the type of its key is refused under that key, also inside a branch."""
    with pytest.raises(SettingsError) as refused:
        Settings().overlaid(tree(key, value))

    assert refused.value.key == key
    assert f"setting {key} = {value!r}" in str(refused.value)


def test_a_node_id_is_refused_like_every_setting() -> None:
    """A node id that cannot be one is a wrong setting: the key, the value and what it may be."""
    with pytest.raises(SettingsError) as refused:
        Settings().overlaid({"node": {"id": "a b"}})

    assert refused.value.key == "node.id"
    assert refused.value.limit


def test_an_unknown_profile_lists_the_valid_ones() -> None:
    """The error for a misspelt profile lists all of them."""
    with pytest.raises(SettingsError) as refused:
        Settings().overlaid({"node": {"profile": "fulll"}})

    assert all(profile in str(refused.value) for profile in PROFILES)


def test_lease_expiry_cannot_be_disabled() -> None:
    """Without it the jobs of dead nodes would never be taken over."""
    assert NodeSettings(disabled_daemons=("fill",)).disabled_daemons == ("fill",)
    with pytest.raises(SettingsError, match=r"node\.disabled_daemons = .*rescue must run"):
        NodeSettings(disabled_daemons=("fill", "rescue"))


def test_a_branch_used_twice_names_the_right_key() -> None:
    """The bounds of the review are no bounds of the gate."""
    with pytest.raises(SettingsError, match=r"policy\.review\.alpha = 2"):
        Settings().overlaid({"policy": {"review": {"alpha": 2}}})


def test_a_variant_cannot_be_named_twice() -> None:
    """One variant has one line."""
    with pytest.raises(SettingsError, match=r"policy\.variants"):
        Settings().overlaid({"policy": {"variants": ["hex8_2p", "hex8_2p"]}})


def test_the_bounds_of_the_gate_have_an_order() -> None:
    """The test needs two different hypotheses, the second above the first."""
    with pytest.raises(SettingsError, match=r"policy.gate.elo_1 = 5.* above elo_0 = 5"):
        Settings().overlaid({"policy": {"gate": {"elo_0": 5, "elo_1": 5}}})


@pytest.mark.parametrize(
    "value", [{"work": {"slots": 4, "lease_seconds": -1}}, {"work": {"slots": 4}, "nodes": {}}, {"bus": {"batch": "x"}}]
)
def test_nothing_changes_on_error(value: Mapping[str, Any]) -> None:
    """A tree with one wrong value leaves the settings as they were, also where its other values are good."""
    settings = Settings()
    before = msgspec.json.encode(settings)

    with pytest.raises((SettingsError, UnknownName)):
        settings.overlaid(value)

    assert msgspec.json.encode(settings) == before


def test_an_overlay_changes_only_its_own_keys() -> None:
    """Values beside the overlaid one, also in the same branch, stay as they were."""
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
