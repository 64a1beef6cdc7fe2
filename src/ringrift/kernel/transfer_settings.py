"""Settings of moving files, a part of the tree in :mod:`.settings`."""

import re
import shlex
from typing import Annotated

from ringrift.kernel.errors import SettingsError, require_range
from ringrift.kernel.ranges import Branch, Range

TRANSFER_CLASSES = ("urgent", "champion", "samples", "second", "mirror")  #: Why a file moves, most urgent first.
STRATEGIES = ("hybrid", "ephemeral", "broadcast", "pull", "auto")  #: Who gets copies of files ahead of need.
TRANSPORTS = ("local", "http", "ssh", "rsync", "base64", "s3")  #: How a file moves.
_BytesPerSecond = Annotated[float, Range(0, 1e12)]


class Replicas(Branch):
    """How many copies of each file there should be."""

    branch = "replicas"
    copies_min: Annotated[int, Range(1, 100)] = 2
    every_seconds: Annotated[float, Range(0.05, 86_400)] = 30.0
    strategy: str = "hybrid"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.strategy not in STRATEGIES:
            raise SettingsError("replicas.strategy", self.strategy, f"must be one of {', '.join(STRATEGIES)}")


class BandwidthSettings(Branch):
    """How fast this process moves files, and how many at once.  A rate of 0 is no limit."""

    branch = "bandwidth"
    bytes_per_second: _BytesPerSecond = 0.0
    host_bytes_per_second: _BytesPerSecond = 0.0
    hosts: dict[str, float] = {}
    classes: dict[str, float] = {}
    weights: dict[str, float] = {}
    timetable: dict[str, float] = {}
    transfers_per_host_max: Annotated[int, Range(1, 1000)] = 4
    transfers_max: Annotated[int, Range(1, 10_000)] = 16
    expiry_seconds: Annotated[float, Range(0.05, 86_400)] = 300.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("hosts", "classes", "timetable"):
            for key, rate in getattr(self, name).items():
                require_range(f"bandwidth.{name}.{key}", rate, 0, 1e12)
        for name in ("classes", "weights"):
            for key in getattr(self, name).keys() - set(TRANSFER_CLASSES):
                limit = f"is no class of transfers: they are {', '.join(TRANSFER_CLASSES)}"
                raise SettingsError(f"bandwidth.{name}", key, limit)
        for key, weight in self.weights.items():
            require_range(f"bandwidth.weights.{key}", weight, 0.001, 1000)
        for hours in self.timetable:
            minutes_of(hours)


class LinkSettings(Branch):
    """Connections to other machines that carry files: when one has stalled, and when it is not tried for a while."""

    branch = "links"
    hosts: str = ""
    bucket: str = ""
    ssh: str = "ssh"
    connect_seconds_max: Annotated[float, Range(1, 600)] = 10.0
    silence_seconds_max: Annotated[float, Range(0.01, 3600)] = 30.0
    bytes_per_second_min: Annotated[float, Range(0, 1e12)] = 16 * 1024.0
    window_seconds: Annotated[float, Range(0.01, 3600)] = 60.0
    failures_max: Annotated[int, Range(1, 1000)] = 3
    reset_seconds: Annotated[float, Range(0, 86_400)] = 60.0

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            words = shlex.split(self.ssh)
        except ValueError:  # a quote without its end
            words = []
        if not words:
            raise SettingsError("links.ssh", self.ssh, "must be a command with its options, such as: ssh -F FILE")
        if self.bucket and not self.bucket.startswith("s3://"):
            raise SettingsError("links.bucket", self.bucket, "must begin with s3://")


class UpkeepSettings(Branch):
    """Care for the folder of a node: many small files become few large ones, lost ones are listed, room is made."""

    branch = "upkeep"
    consolidate_seconds: Annotated[float, Range(1, 7 * 86_400)] = 600.0
    rest_seconds: Annotated[float, Range(0, 365 * 86_400)] = 86_400.0
    small_bytes_max: Annotated[int, Range(1, 1 << 26)] = 1 << 20
    pack_bytes_max: Annotated[int, Range(1 << 16, 1 << 32)] = 64 << 20
    pack_files_min: Annotated[int, Range(2, 16_384)] = 64
    adopt_seconds: Annotated[float, Range(1, 7 * 86_400)] = 600.0
    disk_seconds: Annotated[float, Range(0.05, 3600)] = 30.0
    disk_low: Annotated[float, Range(0, 1)] = 0.20
    disk_high: Annotated[float, Range(0, 1)] = 0.10
    disk_critical: Annotated[float, Range(0, 1)] = 0.05


def minutes_of(hours: str) -> tuple[int, int]:
    """The minutes of the day at which *hours*, ``08:00-18:30``, begin and end.  Raises SettingsError."""
    match = re.fullmatch(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)", hours)
    if match is None or hours[:5] == hours[6:]:
        raise SettingsError("bandwidth.timetable", hours, "must be two times of the day, such as 08:00-18:30")
    first, second, third, fourth = map(int, match.groups())
    return 60 * first + second, 60 * third + fourth


class BackupSettings(Branch):
    """Where the store and all files are backed up, how often, and how many backups stay."""

    branch = "backup"
    place: str = ""
    every_seconds: Annotated[float, Range(1, 30 * 86_400)] = 86_400.0
    keep: Annotated[int, Range(1, 10_000)] = 14
    mirror: str = ""
    mirror_seconds: Annotated[float, Range(0.05, 86_400)] = 60.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mirror.startswith("s3://"):
            raise SettingsError("backup.mirror", self.mirror, "must be a folder; a bucket can be backup.place")
