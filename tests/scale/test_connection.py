"""A cluster with a token is used with it, and an error says that the token is missing or wrong, at once."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from rewardrate.errors import InputError
from rewardrate.scale import RayExecutor

pytest.importorskip("ray", reason="Ray is not installed: the executor over a cluster is NOT tested")

HOST = "127.0.0.2"  # Ray takes 127.0.0.1 for "find the address that others see"
RUN = """
import sys, time
import ray
from rewardrate.errors import InputError
from rewardrate.sandbox import Job, Limits
from rewardrate.scale import RayExecutor
start = time.monotonic()
try:
    with RayExecutor(sys.argv[1], repeats=0) as executor:
        nodes = sum(node["Alive"] for node in executor._ray.nodes())
        print(nodes, executor.run([Job("print(6 * 7)", Limits(seconds=60, cores=1))])[0].stdout)
except InputError as error:
    print(error)
print(time.monotonic() - start)
"""


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1:99999", "nowhere.invalid:6379", "nonsense"])
def test_an_address_where_nobody_listens_is_reported_at_once(address):
    pytest.importorskip("ray", reason="Ray is not installed: the executor over a cluster is NOT tested")
    with pytest.raises(InputError, match=r"sandbox\.address.*no Ray cluster answers there.*ray start --head"):
        RayExecutor(address)


def ray_command(*words):
    return [sys.executable, "-c", "from ray.scripts.scripts import main; main()", *words]


def environment(home, **more):
    """No setting of Ray's but these, and a home folder of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    plain = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0", "HOME": str(home), "TMPDIR": str(home)}
    return {**kept, **plain, **more}


def run(address, env):
    """What the executor says or finds, and how many seconds that took without imports."""
    words = [sys.executable, "-c", RUN, address]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=300, check=True)
    told, _, seconds = done.stdout.rstrip().rpartition("\n")
    return told, float(seconds)


@contextlib.contextmanager
def started(words, env, until):
    """`ray start --block ...` for the length of a block; ended with everything it has started."""
    with subprocess.Popen(
        ray_command("start", "--block", *words),
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        lines = []
        for line in process.stdout:
            lines.append(line)
            if until in line:
                break
        else:
            pytest.fail("".join(lines))
        try:
            yield
        finally:
            process.terminate()
            process.communicate(timeout=300)


@pytest.fixture
def home():
    """Short, for Ray puts sockets below it."""
    made = Path(tempfile.mkdtemp(prefix="rr-"))
    made.chmod(0o711)
    yield made
    shutil.rmtree(made, ignore_errors=True)


def test_the_documented_commands_start_a_cluster_with_a_token_and_the_executor_uses_it(home):
    """The commands of docs/ray.md on one machine: a token, a head, a node, a run."""
    env = environment(home, RAY_AUTH_MODE="token")
    subprocess.run(ray_command("get-auth-token", "--generate"), env=env, check=True, capture_output=True)
    with socket.create_server((HOST, 0)) as free:
        address = f"{HOST}:{free.getsockname()[1]}"
    small = ["--object-store-memory=80000000", f"--node-ip-address={HOST}", "--disable-usage-stats"]
    head = ["--head", f"--port={address.rpartition(':')[2]}", "--num-cpus=0", "--include-dashboard=false"]
    with (
        started([*head, f"--temp-dir={home}/ray", *small], env, "Ray runtime started"),
        started([f"--address={address}", "--num-cpus=1", *small], env, "Ray runtime started"),
    ):
        assert run(address, env)[0] == "2 42\n"
        told, seconds = run(address, environment(home))
        assert "sandbox.address" in told
        assert "the Ray cluster there asks for a token, and RAY_AUTH_MODE is not set here" in told
        assert "export RAY_AUTH_MODE=token" in told
        assert seconds < 15, "told before Ray's own twenty seconds of tries"
        told, _ = run(address, environment(home, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN="0" * 64))
        assert "the one on this machine is not the cluster's" in told
        (home / "empty").mkdir()
        told, _ = run(address, environment(home / "empty", RAY_AUTH_MODE="token"))
        assert "asks for a token, and there is none on this machine" in told


def test_a_cluster_of_our_own_leaves_no_token_behind_that_later_clusters_would_ask_for(home):
    assert run("", environment(home))[0] == "1 42\n"
    assert not (home / ".ray").exists()


def test_what_listens_but_is_no_cluster_is_told_apart_from_nobody(home):
    with socket.create_server((HOST, 0)) as silent:
        told, _ = run(f"{HOST}:{silent.getsockname()[1]}", environment(home))
    assert "something listens there, but it does not answer as a Ray cluster does" in told
