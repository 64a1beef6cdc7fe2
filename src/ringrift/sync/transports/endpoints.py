"""The ways to each node: by its folder on this machine, over ssh to the hosts of a file, or to a bucket, best first."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from ringrift.cluster.hosts import Host, read_hosts
from ringrift.kernel.transfer_settings import BandwidthSettings, LinkSettings
from ringrift.sync.transports.base64 import Base64Transport
from ringrift.sync.transports.local import LocalTransport
from ringrift.sync.transports.ports import AnyTransport, Endpoint, LinkHealth
from ringrift.sync.transports.rsync import RsyncTransport
from ringrift.sync.transports.s3 import BUCKET, S3Transport, bucket_finder
from ringrift.sync.transports.ssh import SshTransport

_Finder = Callable[[str], Awaitable[Sequence[Endpoint]]]  #: The ways to a node that one part knows.
_OVER_SSH = ("ssh", "rsync", "base64")  # a plain stream is the fastest, text passes where nothing else does


def open_endpoints(
    links: LinkSettings, bandwidth: BandwidthSettings, finders: Sequence[_Finder], health: LinkHealth
) -> "_KnownEndpoints":
    """What a process with these settings can reach.  Raises SettingsError if the file of hosts is not one."""
    hosts = read_hosts(links.hosts)[0] if links.hosts else ()

    def rate(node: str) -> float:
        rates = (bandwidth.hosts.get(node, bandwidth.host_bytes_per_second), bandwidth.bytes_per_second)
        return min((rate for rate in rates if rate), default=0.0)

    streams = (SshTransport(links), Base64Transport(links), S3Transport())
    transports = (LocalTransport(), RsyncTransport(links, rate), *streams)
    if not links.bucket:
        return _KnownEndpoints(transports, finders, hosts, health)
    return _KnownEndpoints(transports, [*finders, bucket_finder(links.bucket)], hosts, health, buckets=(BUCKET,))


class _KnownEndpoints:
    """:class:`ringrift.sync.transports.ports.Endpoints`: what *finders* know, in their order, then *hosts*."""

    def __init__(
        self,
        transports: Sequence[AnyTransport],
        finders: Sequence[_Finder],
        hosts: Sequence[Host],
        health: LinkHealth,
        *,
        buckets: Sequence[str] = (),
    ) -> None:
        self._transports = {transport.name: transport for transport in transports}
        self._finders, self._hosts, self._health = finders, {host.name: host for host in hosts}, health
        self._hubs = (*(host.name for host in hosts if host.is_hub), *buckets)

    @property
    def transports(self) -> Mapping[str, AnyTransport]:
        """By name."""
        return self._transports

    @property
    def health(self) -> LinkHealth:
        """The breaker of each link."""
        return self._health

    async def find(self, node: str) -> Sequence[Endpoint]:
        """Where *node* can be reached, the best way first."""
        ways = [endpoint for finder in self._finders for endpoint in await finder(node)]
        if (host := self._hosts.get(node)) is not None:
            ways += _host_endpoints(host)
        return [endpoint for endpoint in ways if endpoint.transport in self._transports]

    def hubs(self) -> tuple[str, ...]:
        """The hosts and the bucket that hold copies and run nothing of ours."""
        return self._hubs


def _host_endpoints(host: Host) -> list[Endpoint]:
    """The ways to *host* over ssh; none if it cannot be reached from outside."""
    if host.nat_blocked or not host.addresses:
        return []
    return [
        Endpoint(
            node=host.name,
            transport=transport,
            addresses=host.addresses,
            folder=host.blob_folder,
            port=host.ssh_port,
            identity=host.ssh_key,
            host_keys=host.host_keys,
        )
        for transport in _OVER_SSH
    ]


def folder_finder(addresses: Callable[[], Awaitable[Mapping[str, str]]]) -> _Finder:
    """The folders of nodes on this machine, by the paths that *addresses* has; their markers tell which they are."""

    async def find(node: str) -> Sequence[Endpoint]:
        folder = (await addresses()).get(node, "")
        return [Endpoint(node=node, transport="local", folder=folder)] if folder.startswith("/") else []

    return find
