"""The documented transport between nodes: one file to one node, by whichever way works, and the state of each way."""

from typing import Any

from ringrift.sync import receipts
from ringrift.sync.wants import TransferClass
from ringrift.work.breakers import BREAKERS
from ringrift.work.link_breakers import link_subjects
from ringrift_compat import embedded_host
from ringrift_compat.embedded_node import EmbeddedNode, embedded
from ringrift_compat.sync.bandwidth_manager import BYTES_PER_MBIT, TransferPriority
from ringrift_compat.sync.cluster_files import CopyResult, copy_file


class ClusterTransport:
    """Moves files between nodes; ways whose breaker is open are left out."""

    async def transfer(
        self,
        blob: str,
        target_node: str,
        source_node: str = "",
        priority: TransferPriority | str = TransferPriority.NORMAL,
        bandwidth_limit_mbps: float = 0.0,
    ) -> CopyResult:
        """Bring the file *blob* to *target_node*, from *source_node* first; a failure is a result, with its reason."""
        transfer_class = TransferClass(TransferPriority.parse(priority).transfer_class)
        options = {
            "source": source_node,
            "transfer_class": transfer_class,
            "rate_max": bandwidth_limit_mbps * BYTES_PER_MBIT,
        }

        async def copy(node: EmbeddedNode) -> CopyResult:
            return await copy_file(await embedded_host.open_host(node), blob, target_node, **options)

        return await embedded.post(copy(embedded.node()))

    def get_link_states(self, node_id: str) -> dict[str, str]:
        """The breaker of every transport to a node: closed, open or half open."""
        subjects = link_subjects(node_id)
        rows = embedded.query(lambda view: BREAKERS.get_many(view, subjects))
        return {row.rpartition("/")[2]: str(rows[row].state) if row in rows else "closed" for row in subjects}

    def get_speeds(self) -> list[dict[str, Any]]:
        """How fast each way was lately: bytes a second, and seconds before the first of them."""
        links = embedded.query(receipts.measured_links)
        return [
            {"node": link.source, "transport": link.transport, "rate": link.rate, "latency": link.latency}
            for link in links
        ]


def get_cluster_transport() -> ClusterTransport:
    """The transport of this program."""
    return ClusterTransport()
