"""The same scripts on this machine and over a Ray cluster: one line differs. Lines for Ray are marked with `# +`.

Here the cluster is one of our own with this machine alone; give RayExecutor("host:6379") for yours.
"""

from importlib.util import find_spec

from rewardrate.sandbox import Job, Limits, Pool


def main():
    from rewardrate.scale import RayExecutor  # +

    jobs = [Job(f"print(sum(range({n})))", Limits(seconds=20, cores=1)) for n in (10, 100, 1000, 10000)]
    with Pool(repeats=0) as pool:
        here = pool.run(jobs)
    with RayExecutor(repeats=0) as cluster:  # + instead of Pool
        there = {}
        for index, result in cluster.stream(jobs):
            there[index] = result
            print(f"script {index}: {result.seconds:.2f} s")
    print([there[index].stdout.strip() for index in range(len(jobs))])
    assert [result.stdout for result in here] == [there[index].stdout for index in range(len(jobs))]


if find_spec("ray") is None:
    print("SKIPPED: Ray is not installed")
else:
    main()
