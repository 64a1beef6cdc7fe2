"""The documented configuration: one source, and typed errors."""

from pathlib import Path

import pytest

from compat.subscribers import home
from ringrift.kernel.errors import SettingsError, UnknownName
from ringrift_compat.coordinators.coordinator_config import CoordinatorConfig, get_config
from ringrift_compat.embedded_node import embedded
from ringrift_compat.variables import read_options, read_settings

__all__ = ["home"]


def test_the_config_is_a_view_of_the_settings(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every documented key maps to a setting of ours, and the environment has its effect."""
    monkeypatch.setenv("RINGRIFT_EVENT_HANDLER_TIMEOUT", "42.5")
    monkeypatch.setenv("RINGRIFT_IS_COORDINATOR", "true")
    config = get_config()

    assert config.settings is embedded.node().settings
    assert CoordinatorConfig().settings == read_settings().settings
    assert (config.event_handler_timeout, config.get("bus.handler_seconds_max")) == (42.5, 42.5)
    assert (config.profile, config.is_coordinator) == ("coordinator", True)
    assert config.db_path.startswith(str(home))
    assert config.to_dict()["min_replicas"] == config.settings.replicas.copies_min
    assert config.to_dict()["settings"]["bus"]["handler_seconds_max"] == 42.5
    assert config.bus.poll_seconds == 0.05


def test_every_old_word_is_one_setting(home: Path) -> None:
    """Each documented word reads the setting that has its meaning; a node of another profile is no coordinator."""
    config = get_config()
    ours, options = config.settings, config.options

    assert {name: value for name, value in config.to_dict().items() if name != "settings"} == {
        "node_id": ours.node.id,
        "profile": ours.node.profile,
        "is_ephemeral": ours.node.ephemeral,
        "db_path": ours.store.path,
        "event_handler_timeout": ours.bus.handler_seconds_max,
        "event_validation_strict": options.strict,
        "job_grace_period": ours.work.grace_seconds,
        "trace_debug": ours.trace.debug,
        "auto_trigger_pipeline": ours.policy.auto,
        "dedup_window_seconds": options.window_seconds,
        "dlq_max_retries": ours.bus.redelivery.tries,
        "heartbeat_interval": ours.cluster.beat_seconds,
        "games_per_export": ours.policy.games_per_export,
        "min_replicas": ours.replicas.copies_min,
    }
    assert (config.profile, config.is_coordinator) == ("full", False)


def test_an_unknown_key_is_an_error() -> None:
    """Both ways to read list the valid keys."""
    config = get_config()

    with pytest.raises(AttributeError, match="event_handler_timeout"):
        _ = config.event_handler_timeuot
    with pytest.raises(UnknownName, match="event_handler_timeout"):
        config.get("bus.nothing")


def test_strictness_comes_from_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The documented variable makes publishing strict, by default it is not, and a value of no sense is refused."""
    name = "RINGRIFT_EVENT_VALIDATION_STRICT"
    monkeypatch.setenv(name, "true")

    assert (CoordinatorConfig().event_validation_strict, CoordinatorConfig().dedup_window_seconds) == (True, 30.0)
    assert read_options({}).strict is False
    with pytest.raises(SettingsError, match="perhaps"):
        read_options({name: "perhaps"})
