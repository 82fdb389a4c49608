"""A real Ray cluster of several nodes on this machine, on loopback, each node with cores of its own to give away."""

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

LOOPBACK = "127.0.0.2"  # Ray takes 127.0.0.1 for "find the address that others see"
STORE_BYTES = 80 * 2**20


class LocalCluster:
    """Raylets of their own: `head` without CPUs (the driver's), and nodes that can be killed and added.

    Every node has its own folder for temporary files, so that it owns cores like a machine of its own.
    """

    def __init__(self, nodes: int, cpus: int):
        from ray.cluster_utils import Cluster

        self.cpus = cpus
        self._folder = Path(tempfile.mkdtemp(prefix="rewardrate-cluster-"))
        self._folder.chmod(0o711)
        self._made = 0
        args = {"num_cpus": 0, "object_store_memory": STORE_BYTES, "include_dashboard": False}
        self._cluster = Cluster(initialize_head=True, head_node_args={**args, "node_ip_address": LOOPBACK})
        self.address = self._cluster.address
        self.nodes = [self.add() for _ in range(nodes)]

    def add(self):
        """One more node."""
        self._made += 1
        place = self._folder / str(self._made)
        place.mkdir()
        place.chmod(0o711)
        args = {"num_cpus": self.cpus, "object_store_memory": STORE_BYTES, "node_ip_address": LOOPBACK}
        return self._cluster.add_node(wait=True, env_vars={"TMPDIR": str(place)}, **args)

    def kill(self, node):
        """End a node at once, as if its plug were pulled."""
        self._cluster.remove_node(node, allow_graceful=False)

    def folders(self):
        """The temporary folders of all nodes there ever were."""
        return sorted(self._folder.iterdir())

    def close(self):
        """End everything."""
        import ray

        with contextlib.suppress(Exception):
            ray.shutdown()
        self._cluster.shutdown()
        shutil.rmtree(self._folder, ignore_errors=True)


@contextlib.contextmanager
def local_cluster(nodes, cpus=2):
    """A cluster for the length of a block."""
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    cluster = LocalCluster(nodes, cpus)
    try:
        yield cluster
    finally:
        cluster.close()
