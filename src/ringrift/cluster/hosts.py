"""Hosts: the machines of a cluster as ``config/distributed_hosts.yaml`` lists them."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import msgspec

from ringrift.cluster.keys import WORKER
from ringrift.kernel.errors import InputError, SettingsError
from ringrift.kernel.extras import require_module
from ringrift.kernel.ids import check_id
from ringrift.kernel.value import Value

_READY = ("", "ready", "active", "online")  # the status of a host that is to be started
_DATA_PLANE = "it comes with: copies between machines"
_NO_EFFECT = {
    "sync_routing": f"has no effect yet; {_DATA_PLANE}",
    "auto_sync": f"has no effect yet; {_DATA_PLANE}",
    "elo_sync": f"has no effect yet; {_DATA_PLANE}",
    "p2p_voters": "has no effect: the lock of the store decides who leads, and there is no vote",
}
_UNKNOWN = "is unknown and has no effect: misspelt?"
_PROVIDER = re.compile(r"([a-z][a-z0-9]*)_id")
_DESTINATION = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.:%-]*")  # no option of ssh, and nothing that a shell reads
HOST_KEY = re.compile(r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)) [A-Za-z0-9+/]{16,2000}={0,3}")
"""A public key of a machine as a known_hosts file has it, without names and comment."""
FOLDER = re.compile(r"(/|~/)[^\x00-\x1f\x7f]{0,4000}")
"""A folder of another machine: absolute, or in the home of the user there."""
KEY_FILE = re.compile(r"(?!-)[^\x00-\x1f\x7f'\"%]{1,4000}")
"""A file with a private key: a quote would end its word, and % begins one that ssh replaces."""
_HUBS = ("hub", "storage")
_USER = re.compile(r"([A-Za-z0-9_.][A-Za-z0-9_.-]*)?")
_BYTES_MAX = 4 * 1024 * 1024
_CONNECT_SECONDS_MAX = 3.0  # for an address before the next one is taken


class Host(Value):
    """One machine."""

    name: str
    ssh_host: str = ""
    ssh_port: Annotated[int, msgspec.Meta(ge=1, le=65_535)] = 22
    ssh_user: str = ""
    ssh_key: str = ""
    ssh_host_key: str | list[str] = ""  # the only ones that it may show, if any is given
    tailscale_ip: str = ""
    ringrift_path: str = ""
    memory_gb: float = 0.0
    cpus: int = 0
    gpu: str = ""
    gpu_vram_gb: float = 0.0
    role: str = ""
    status: str = ""
    selfplay_enabled: bool = True
    training_enabled: bool | None = None
    p2p_enabled: bool = True
    nat_blocked: bool = False
    is_ephemeral: bool = False
    storage_paths: Any = None
    providers: dict[str, str] = {}  # ``<provider>_id`` by provider

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where ssh connects to, in this order: a private network needs no open port, and keeps its addresses."""
        hosts = dict.fromkeys(host for host in (self.tailscale_ip, self.ssh_host) if host)
        return tuple(f"{self.ssh_user}@{host}" if self.ssh_user else host for host in hosts)

    @property
    def destination(self) -> str:
        """The first of its addresses."""
        return self.addresses[0]

    @property
    def host_keys(self) -> tuple[str, ...]:
        """Its pinned public keys, without comments."""
        keys = [self.ssh_host_key] if isinstance(self.ssh_host_key, str) else self.ssh_host_key
        return tuple(" ".join(key.split()[:2]) for key in keys if key)

    @property
    def blob_folder(self) -> str:
        """Where its files are: as it says, else where a worker that is started over ssh has them."""
        if isinstance(self.storage_paths, Mapping) and self.storage_paths.get("blobs"):
            return str(self.storage_paths["blobs"])
        home = self.ringrift_path or "."
        home = home if home.startswith(("/", "~/")) else f"~/{home}"
        return f"{home.rstrip('/')}/data/{self.name}/blobs"

    @property
    def is_hub(self) -> bool:
        """Whether it only holds copies of files: it is reached over ssh and runs nothing of ours."""
        return self.role in _HUBS

    @property
    def can_train(self) -> bool:
        """Whether it trains: as it says, else if it is expected to stay."""
        return not self.is_ephemeral if self.training_enabled is None else self.training_enabled

    @property
    def profile(self) -> str:
        return "training_node" if self.can_train else "ephemeral" if self.is_ephemeral else "selfplay"

    def scopes(self) -> tuple[str, ...]:
        """What its key may do."""
        without = {"play": not self.selfplay_enabled, "train": not self.can_train}
        return tuple(scope for scope in WORKER if not without.get(scope))

    def settings(self) -> dict[str, object]:
        """The settings that it is started with."""
        return {"node.id": self.name, "node.ephemeral": str(self.is_ephemeral).lower()}

    def labels(self) -> dict[str, str]:
        """What jobs and people may select it by."""
        named = {"role": self.role, "provider": next(iter(self.providers), "")}
        return {key: value for key, value in named.items() if value}

    def reason_to_skip(self) -> str:
        """Why it is not to be started; empty if it is."""
        if self.role == "coordinator":
            return "its role is coordinator, which is this machine"
        if self.is_hub:
            return f"its role is {self.role}: it holds copies and runs nothing"
        if not self.p2p_enabled:
            return "p2p_enabled is false"
        return "" if self.status.lower() in _READY else f"its status is {self.status}"


async def find_destination(host: Host) -> str:
    """The first address of *host* at which a server answers; the last one is not asked."""
    for address in host.addresses[:-1]:
        with suppress(OSError):  # TimeoutError is one
            async with asyncio.timeout(_CONNECT_SECONDS_MAX):
                _, writer = await asyncio.open_connection(address.rpartition("@")[2], host.ssh_port)
            writer.close()
            return address
    return host.addresses[-1]


def read_hosts(file: str) -> tuple[list[Host], list[str]]:
    """The hosts of *file*, and a line about each key that has no effect.  Raises SettingsError, MissingExtra."""
    yaml = require_module("yaml", "cluster")
    try:
        with Path(file).open("rb") as stream:
            text = stream.read(_BYTES_MAX + 1)
        if len(text) > _BYTES_MAX:
            raise SettingsError("hosts file", file, f"is larger than {_BYTES_MAX} bytes")
        tree = yaml.safe_load(text)
    except OSError as error:
        raise SettingsError("hosts file", file, str(error.strerror)) from error
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise SettingsError("hosts file", file, f"is not YAML: {error}") from error
    return _parse_hosts(tree)


def _parse_hosts(tree: Any) -> tuple[list[Host], list[str]]:
    """The hosts of *tree*, the content of the file, and a line about each key without effect.  Raises SettingsError."""
    if not isinstance(tree, Mapping) or not isinstance(tree.get("hosts"), Mapping):
        raise SettingsError("hosts file", str(type(tree).__name__), "must have  hosts:  with a name for each machine")
    notes = [f"{key} {_NO_EFFECT.get(str(key), _UNKNOWN)}" for key in tree if key != "hosts"]
    hosts = list[Host]()
    for name, table in tree["hosts"].items():
        if isinstance(name, bool):
            raise SettingsError("hosts", str(name), "YAML reads on, off, yes and no as true or false: quote the name")
        host, unknown = _parse_host(str(name), {} if table is None else table)
        hosts.append(host)
        notes += [f"hosts.{name}.{key} {_UNKNOWN}" for key in unknown]
    return hosts, notes


def _parse_host(name: str, table: Any) -> tuple[Host, Sequence[str]]:
    """The host called *name*, and the keys that it does not know."""
    try:
        check_id("node", name)
        fields = {str(key): value for key, value in dict(table).items() if value is not None}
    except (InputError, TypeError, ValueError) as error:
        raise SettingsError(f"hosts.{name}", str(table)[:80], f"is no host: {error}") from error
    names = set(Host.__struct_fields__) - {"name", "providers"}
    ids = {key: match[1] for key in fields if key not in names and (match := _PROVIDER.fullmatch(key))}
    own: dict[str, Any] = {key: value for key, value in fields.items() if key in names}
    providers = {provider: str(fields[key]) for key, provider in ids.items()}
    try:
        host = msgspec.convert({**own, "name": name, "providers": providers}, Host, strict=False)
    except msgspec.ValidationError as error:
        raise SettingsError(f"hosts.{name}", str(table)[:80], str(error)) from error
    _check_host(host)
    return host, [key for key in fields if key not in names and key not in ids]


def _check_host(host: Host) -> None:
    """Raise SettingsError unless every word of *host* may reach the command line of ssh."""
    address, rule = " ".join(host.addresses), "must be [user@]host, a name or an IP address"
    hosts = [text for text in (host.tailscale_ip, host.ssh_host) if text]
    if not hosts or not all(map(_DESTINATION.fullmatch, hosts)) or not _USER.fullmatch(host.ssh_user):
        raise SettingsError(f"hosts.{host.name}.ssh_host", address, rule)
    for key in host.host_keys:
        if not HOST_KEY.fullmatch(key):
            rule = "must be a public key, such as  ssh-keyscan HOST  prints it: ssh-ed25519 AAAA…"
            raise SettingsError(f"hosts.{host.name}.ssh_host_key", key, rule)
    if not FOLDER.fullmatch(host.blob_folder):
        raise SettingsError(f"hosts.{host.name}.storage_paths", host.blob_folder, "must begin with / or ~/")
    if host.ssh_key and not KEY_FILE.fullmatch(host.ssh_key):
        raise SettingsError(f"hosts.{host.name}.ssh_key", host.ssh_key, "must be a path without quotes and %")
