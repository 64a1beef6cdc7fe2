"""The documented configuration: one source, typed errors, and knobs that have an effect."""

from pathlib import Path

import pytest

from compat.ears import home
from ringrift.cli.environment import effective
from ringrift.kernel.errors import SettingsError, UnknownName
from ringrift_compat.ambient import ambient
from ringrift_compat.bridging import AsyncBridgeManager
from ringrift_compat.configuring import KNOBS, CoordinatorConfig, get_config, reset_config, set_config, update_config
from ringrift_compat.snapshots import SnapshotCoordinator

__all__ = ["home"]


def test_it_is_a_view_of_the_settings(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every old word is a setting of ours; what the environment says shows, with its origin."""
    monkeypatch.setenv("RINGRIFT_EVENT_HANDLER_TIMEOUT", "42.5")
    monkeypatch.setenv("RINGRIFT_IS_COORDINATOR", "true")
    config = get_config()

    assert config.settings is ambient.node().settings
    assert config == CoordinatorConfig(effective().settings)
    assert (config.event_handler_timeout, config.get("bus.handler_seconds_max")) == (42.5, 42.5)
    assert (config.profile, config.is_coordinator) == ("coordinator", True)
    assert (config.origin("event_handler_timeout"), config.origin("min_replicas")) == ("environment", "default")
    assert config.origin("bus.poll_seconds").endswith("ringrift.toml")
    assert config.db_path.startswith(str(home))
    assert set(KNOBS) <= set(config.to_dict())
    assert config.to_dict()["settings"]["bus"]["handler_seconds_max"] == 42.5
    assert config.bus.poll_seconds == 0.05


def test_an_unknown_word_is_an_error() -> None:
    """Reading, asking and setting say what there is."""
    config = get_config()

    with pytest.raises(AttributeError, match="event_handler_timeout"):
        _ = config.event_handler_timeuot
    with pytest.raises(UnknownName, match="event_handler_timeout"):
        config.get("bus.nothing")
    with pytest.raises(UnknownName):
        update_config(nothing=1)
    with pytest.raises(UnknownName):
        CoordinatorConfig(nothing=1)


def test_knobs_have_an_effect() -> None:
    """What is turned is what later parts start with, until it is turned back."""
    update_config(snapshot_interval_seconds=12.0, max_snapshots=3)
    update_config({"bridge_max_workers": 2})
    config = get_config()

    snapshots = SnapshotCoordinator()
    assert (snapshots.config.interval, snapshots.keep) == (12.0, 3)
    assert AsyncBridgeManager().max_workers == 2
    assert (config.max_snapshots, config.origin("max_snapshots")) == (3, "program")
    assert reset_config().max_snapshots == 10
    assert set_config(config).max_snapshots == 3
    assert (get_config().snapshot_interval_seconds, SnapshotCoordinator().keep) == (12.0, 3)


@pytest.mark.parametrize(
    ("key", "value"),
    [("max_snapshots", 0), ("max_snapshots", 2.5), ("max_snapshots", True), ("snapshot_interval_seconds", "soon"),
     ("bridge_max_workers", 10**6)],
)  # fmt: skip
def test_a_value_out_of_range_is_refused(key: str, value: object) -> None:
    """The error names the key, and nothing else that was asked for together with it is changed."""
    with pytest.raises(SettingsError, match=key):
        update_config({"snapshot_interval_seconds": 5.0, key: value})

    assert get_config().snapshot_interval_seconds == 300.0


def test_a_setting_is_fixed_while_the_node_is_open() -> None:
    """Asking for another value raises with how to change it, asking for the same does nothing."""
    with pytest.raises(SettingsError, match="RINGRIFT_EVENT_VALIDATION_STRICT"):
        update_config(event_validation_strict=True, max_snapshots=3)
    with pytest.raises(SettingsError, match=r"bus\.batch in ringrift\.toml"):
        update_config({"bus.batch": 7})
    with pytest.raises(SettingsError):
        set_config(CoordinatorConfig(effective(given={"bus.batch": 7}).settings))

    assert update_config(event_validation_strict=False) == get_config()
    assert get_config().max_snapshots == 10
