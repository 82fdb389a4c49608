"""Every job has exactly one result, whatever happens to the nodes."""

import dataclasses
import re
import time

import pytest

from rewardrate.environments.mle.environment import Settings
from rewardrate.errors import InfrastructureError, InputError
from rewardrate.runlog import RunLog
from rewardrate.sandbox import Job, Limits
from rewardrate.sandbox.open_jobs import OpenJobs
from rewardrate.training.loop import Budget
from rewardrate.training.recipe import EndpointChoice, Recipe, Slots
from rewardrate.training.session import train
from scale.ray_cluster import local_cluster

pytest.importorskip("ray", reason="Ray is not installed: the executor over a cluster is NOT tested")

from rewardrate.scale import RayExecutor, ray_executor

SMALL = Limits(seconds=20, cores=1)


@pytest.fixture(scope="module")
def cluster():
    with local_cluster(3, cpus=2) as made:
        yield made


def wait_for_all(executor, cluster, seconds=600):
    """Until every node of the cluster takes jobs."""
    end = time.monotonic() + seconds
    while sum(member.ready for member in executor._members.values()) < len(cluster.nodes):
        assert time.monotonic() < end, "the nodes did not get ready"
        executor.run([Job("import time; time.sleep(0.2)", SMALL)] * 3)


def test_a_node_that_is_killed_loses_no_attempt_and_its_successor_is_used(cluster):
    jobs = [Job(f"import time; print({n}); time.sleep(0.3)", SMALL) for n in range(90)]
    seen = []
    with RayExecutor(cluster.address, repeats=0) as executor:
        wait_for_all(executor, cluster)

        def on_done(index, result):
            seen.append(index)
            if len(seen) == 20:
                cluster.kill(cluster.nodes.pop())
            if len(seen) == 30:
                cluster.nodes.append(cluster.add())

        events = []
        executor.on_event = lambda kind, message: events.append((kind, message))
        results = executor.run(jobs, on_done=on_done)
        lost = [message for kind, message in events if kind == "node-lost"]
        assert len(lost) == 1, "a lost node is reported once"
        assert re.search(r"^node \w{12} at [\d.]+ is lost \(.+\); attempts that it was running: [0-2]$", lost[0])
        assert sorted(seen) == list(range(90))
        assert [result.stdout for result in results] == [f"{n}\n" for n in range(90)]
        assert {result.status for result in results} == {"ok"}
        assert executor.faults >= 1


def test_a_job_whose_nodes_are_lost_every_time_is_not_charged(cluster):
    with RayExecutor(cluster.address, repeats=0, retries=0) as executor:
        wait_for_all(executor, cluster)

        def on_done(index, result):
            if index == 0:
                for member in list(executor._members.values()):
                    executor._ray.kill(member.actor)

        jobs = [Job("import time; time.sleep(1)", SMALL), *[Job("import time; time.sleep(18)", SMALL)] * 3]
        results = executor.run(jobs, on_done=on_done)
    assert [result.status for result in results] == ["ok"] + ["sandbox-failure"] * 3
    assert "lost" in results[1].message


def test_an_exception_of_the_caller_ends_everything_and_the_executor_can_be_used_again(cluster):
    def broken(index, result):
        raise RuntimeError("enough")

    with RayExecutor(cluster.address, repeats=0) as executor:
        with pytest.raises(RuntimeError, match="enough"):
            executor.run([Job("import time; time.sleep(0.2)", SMALL)] * 12, on_done=broken)
        assert executor.run([Job("print(2)", SMALL)])[0].stdout == "2\n"


def test_data_are_sent_once_to_each_node_and_again_when_they_change(cluster, tmp_path):
    (tmp_path / "words.txt").write_text("hello")
    tmp_path.chmod(0o755)
    job = Job("print(open('data/here/words.txt').read())", SMALL, data={"here": tmp_path})
    with RayExecutor(cluster.address, repeats=0) as executor:
        assert {result.stdout for result in executor.run([job] * 12)} == {"hello\n"}
        shelves = [place for folder in cluster.folders() for place in folder.glob("rewardrate-data-*/*")]
        assert 1 <= len(shelves) <= 3
        (tmp_path / "words.txt").write_text("other")
        assert {result.stdout for result in executor.run([job] * 12)} == {"other\n"}
    left = [place for folder in cluster.folders() for place in folder.glob("rewardrate-data-*")]
    assert len(left) <= 1, "only the killed node may leave something behind"


def test_a_node_whose_scripts_would_lack_a_package_is_left_out_and_its_name_is_reported(cluster, monkeypatch, caplog):
    """The driver has a package more than the nodes: no script may fail there for the want of it."""
    here = ray_executor.script_packages()
    monkeypatch.setattr(ray_executor, "script_packages", lambda: here | {"lightgbm": "4.6"})
    with (
        RayExecutor(cluster.address, repeats=0, patience_seconds=20) as executor,
        caplog.at_level("WARNING"),
        pytest.raises(InfrastructureError, match="no node of the Ray cluster was ready"),
    ):
        executor.run([Job("print(1)", SMALL)])
    assert "scripts there have no lightgbm; pip install 'rewardrate[agent,ray]'" in caplog.text


def most_at_once(results):
    """How many scripts ran at the same time; each printed when it began and when it ended."""
    spans = [tuple(map(float, result.stdout.split())) for result in results]
    return max(sum(begun <= moment < ended for begun, ended in spans) for moment, _ in spans)


def test_slots_bound_scripts_at_once_also_when_later_jobs_need_fewer_or_more_cores(cluster):
    watched = "import time; a = time.monotonic(); time.sleep({}); print(a, time.monotonic())"
    brief, long = Job(watched.format(0.8), SMALL), Job(watched.format(5), SMALL)  # long: also where starting takes long
    nodes, two = len(cluster.nodes), Limits(seconds=20, cores=2)
    with RayExecutor(cluster.address, slots=1, repeats=0) as executor:
        assert {result.status for result in executor.run([Job("print(1)", SMALL)] * 3)} == {"ok"}
        assert {result.status for result in executor.run([Job("print(1)", two)] * 3)} == {"ok"}
        assert most_at_once(executor.run([brief] * 9)) <= nodes  # though each holds two CPUs by now
    with RayExecutor(cluster.address, slots=2, repeats=0) as executor:
        assert most_at_once(executor.run([dataclasses.replace(brief, limits=two)] * 4)) <= nodes
        assert most_at_once(executor.run([long] * 2 * nodes)) > nodes


def test_a_slot_is_in_use_until_its_script_has_ended_however_late_the_result_is_fetched(cluster):
    jobs = OpenJobs([Job("pass", SMALL)] * 12)
    jobs.end()
    with RayExecutor(cluster.address, slots=1, repeats=0) as executor:
        for _ in executor.stream(jobs):
            time.sleep(0.3)  # meanwhile others end and others begin
    assert 1 <= jobs.usage()[1] <= len(cluster.nodes)


def test_a_process_that_is_connected_to_one_cluster_is_not_taken_to_another(cluster):
    import ray

    host, port = cluster.address.split(":")
    ray.init(address=cluster.address, log_to_driver=False)
    try:
        for same in ("", "auto", cluster.address):
            with RayExecutor(same, repeats=0) as executor:
                assert executor.local is False
        for other in (f"{host}:{int(port) + 1}", f"192.0.2.1:{port}", f"nowhere.invalid:{port}"):
            with pytest.raises(InputError, match=r"sandbox\.address.*is connected to the Ray cluster at .* already"):
                RayExecutor(other)
        assert ray.is_initialized()
    finally:
        ray.shutdown()


def test_a_training_run_keeps_the_loss_of_a_node_in_its_events(cluster, chat, tmp_path, monkeypatch):
    import ray

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    recipe = Recipe(
        task="digits8x8",
        batch=4,
        budget=Budget(steps=2),
        policy=EndpointChoice(url=chat, model="chatty", parallel=1),
        environment=Settings(cores=1, reward="raw", memory_bytes=2**30),
        sandbox=Slots(repeats=0, executor="ray", address=cluster.address),
    )
    killed = []

    def on_step(step):
        if not killed:
            killed.append(cluster.nodes[-1].node_id)
            cluster.kill(cluster.nodes.pop())
            end = time.monotonic() + 60
            while any(node["Alive"] and node["NodeID"] == killed[0] for node in ray.nodes()):
                assert time.monotonic() < end, "the killed node is still alive"
                time.sleep(0.1)

    train(recipe, tmp_path / "run", on_step=on_step)
    cluster.nodes.append(cluster.add())
    with RunLog.open(tmp_path / "run", read_only=True) as log:
        lost = [event.message for event in log.events() if event.kind == "node-lost"]
        assert {attempt.status for attempt in log.attempts()}.isdisjoint({"sandbox-failure"})
    assert len(lost) == 1
    assert lost[0].startswith(f"node {killed[0][:12]} at ")


def test_while_no_node_is_left_the_run_waits_for_one(cluster):
    """The last test of this cluster: the head has no CPUs, and for a moment nobody else is there."""
    seen = []
    with RayExecutor(cluster.address, repeats=0, retries=4) as executor:  # a job may be lost with each of three nodes

        def on_done(index, result):
            seen.append(index)
            if len(seen) == 6:
                while cluster.nodes:
                    cluster.kill(cluster.nodes.pop())
                time.sleep(3)  # the loss is noticed, and looked at again
                cluster.nodes.append(cluster.add())

        results = executor.run([Job("import time; time.sleep(0.3)", SMALL)] * 30, on_done=on_done)
    assert sorted(seen) == list(range(30))
    assert {result.status for result in results} == {"ok"}
