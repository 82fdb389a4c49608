"""One sitting of the deadline study on a machine that has no package index (results/2026-11-18-deadline-study/plan.md).

    python benchmarks/deadline_sitting.py pack runs/carry
    python benchmarks/deadline_sitting.py run PLAN TASK:SEED ... --carry runs/carry --seconds 1500 --out /tmp/sitting-1
    python benchmarks/deadline_sitting.py wait /tmp/sitting-1 --seconds 540

`pack` puts into a folder what the other machine lacks: the prepared data of the twelve tasks (9 MB) and the entry
points of this package. `run` trains the start and chooses its step, as runs/start, runs the blocks with `rewardrate
compare` in the time that is left, and ends with a file for every block, BLOCK.tar.xz without checkpoints, in which the
start's measurement lies too, and plan.tar.xz. It goes on in a session of its own, from a copy of the code: the call
returns after --wait seconds, or when all is done; `wait` waits on. Killed, the same `run` resumes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
import tomllib
from importlib.metadata import distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NEEDED = ("numpy", "scipy", "torch", "transformers", "tokenizers", "safetensors", "sklearn", "pandas", "yaml")
STEPS = (310, 320, 330, 340, 350)  # of the start: the plan's grid
PACKING_SECONDS = 40.0
CODE = ("src", "benchmarks", "recipes", "tasks")
START = "./runs/start"  # what a plan names whose start the sitting trains
DATA, INFO, DONE, LOG = "tasks.tar.xz", "rewardrate.dist-info", "done", "sitting.log"


def pack(place: Path) -> None:
    """Prepared data and entry points."""
    from rewardrate.environments.mle.folder import load, shipped
    from rewardrate.environments.mle.preparation import prepare

    place.mkdir(parents=True, exist_ok=True)
    tasks = [load(name) for name in shipped()]
    for task in tasks:
        prepare(task)
    with tarfile.open(place / DATA, "w:xz") as archive:
        for task in tasks:
            data = task.public.parent
            archive.add(data, f"{data.parent.name}/{data.name}")
    found = distribution("rewardrate")
    info = place / INFO
    info.mkdir(exist_ok=True)
    for name in ("METADATA", "entry_points.txt"):
        (info / name).write_text(str(found.read_text(name)), encoding="utf-8")
    print(f"{place}: {sum(path.stat().st_size for path in place.rglob('*') if path.is_file()) / 1e6:.1f} MB")


def surroundings(carry: Path | None, out: Path) -> dict[str, str]:
    """Environment of every command: this package and what was carried are found, two threads each."""
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    found = os.environ | {"OMP_NUM_THREADS": "2", "PYTHONUNBUFFERED": "1"}
    if carry is not None:
        data = out / "cache" / "rewardrate" / "tasks"
        if not data.exists():
            partial = data.with_name("partial")
            shutil.rmtree(partial, ignore_errors=True)
            with tarfile.open(carry / DATA) as archive:
                archive.extractall(partial, filter="data")
            partial.rename(data)
        site = out / "site"
        shutil.copytree(carry / INFO, site / "rewardrate-0.dist-info", dirs_exist_ok=True)
        for wheel in sorted(carry.glob("*.whl")):  # pure ones, if the machine lacks any
            shutil.unpack_archive(wheel, site, "zip")
        paths.insert(0, str(site))
        found["XDG_CACHE_HOME"] = str(out / "cache")
    return found | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def commands(args: argparse.Namespace) -> dict[str, list[str]]:
    """Name of each phase -> its command."""
    out, plan, steps = args.out, str(args.plan.resolve()), sorted(args.steps)
    sets = [f"stop_after={steps[-1]}", f"keep={steps}", *args.set]
    grid = [word for one in sets for word in ("--set", one)]
    models, python = out / "pretrained" / "steps", [sys.executable]
    beside = ["--jobs", str(args.jobs)] if args.jobs else []
    compare = [*python, "-m", "rewardrate", "compare", plan, *args.blocks, "--out", str(out / "compared"), *beside]
    return {
        "imports": [*python, "-c", f"import {', '.join(NEEDED)}; print('all packages are there')"],
        "start": [*python, "-m", "rewardrate", "pretrain", "pretrain-start", "--out", str(models.parent), *grid],
        "measure": [*python, str(ROOT / "benchmarks" / "starts.py"), "deadline", "--models", str(models), "--share",
                    "0.1", "--replies", str(args.replies), "--out", str(out / "starts" / "starts.csv")],
        "compare": compare,
    }  # fmt: skip


def work(args: argparse.Namespace) -> None:
    """All phases, in this process; what is done already is not done again."""
    out, ends = args.out, time.time() + args.seconds
    environment = surroundings(args.carry, out)
    todo = commands(args)

    def call(name: str, *more: str) -> None:
        print(f"== {name}: {time.strftime('%H:%M:%S')}, {ends - time.time():.0f} s left", flush=True)
        subprocess.run([*todo[name], *more], cwd=out, env=environment, check=name != "compare")

    call("imports")
    named = tomllib.loads(args.plan.read_text(encoding="utf-8")).get("start", {}).get("name")
    start = out / START  # from the folder that the commands run in
    if args.start is not None and not start.exists():
        start.parent.mkdir(exist_ok=True)
        shutil.copytree(args.start, start)
    if named == START and not start.exists():
        if not (out / "pretrained" / "steps" / f"{max(args.steps):06d}").exists():
            call("start")
        call("measure")
        chosen = json.loads((out / "starts" / "chosen.json").read_text(encoding="utf-8"))["number"]
        partial = start.with_name("partial")
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(out / "pretrained" / "steps" / f"{chosen:06d}", partial)
        partial.rename(start)
    call("compare", "--seconds", str(max(30.0, ends - time.time() - PACKING_SECONDS)))
    bundle(out, args.to or out / "bundles")
    (out / DONE).write_text("done\n", encoding="utf-8")
    print(f"== done: {time.strftime('%H:%M:%S')}", flush=True)


def bundle(out: Path, to: Path) -> list[Path]:
    """A file for every block, without checkpoints; the measurement of its start lies in it."""
    to.mkdir(parents=True, exist_ok=True)
    compared, made = out / "compared", []
    for block in sorted(path.parent for path in compared.glob("*/block.json")):
        for name in ("starts.csv", "chosen.json"):
            if (out / "starts" / name).exists():
                shutil.copy(out / "starts" / name, block / name)
        made.append(to / f"{block.name}.tar.xz")
        with tarfile.open(made[-1], "w:xz") as archive:
            archive.add(block, block.name, filter=lambda one: None if "/checkpoints" in one.name else one)
    made.append(to / "plan.tar.xz")
    with tarfile.open(made[-1], "w:xz") as archive:
        for path in sorted([*compared.glob("plan.*"), *compared.glob("recipe*.toml"), out / LOG]):
            if path.exists():
                archive.add(path, path.name)
    for path in made:
        print(f"{path} {path.stat().st_size / 1e6:.2f} MB", flush=True)
    return made


def run(args: argparse.Namespace) -> int:
    """Begin the sitting in a session of its own, and wait for it."""
    args.out = args.out.resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / DONE).unlink(missing_ok=True)
    for name in ("carry", "start", "to"):
        if getattr(args, name) is not None:
            setattr(args, name, getattr(args, name).resolve())
    if args.here:
        work(args)
        return 0
    words = [sys.executable, str(copied(args.out) / "benchmarks" / Path(__file__).name), *sys.argv[1:], "--here"]
    words[words.index(str(args.plan))] = shutil.copy(args.plan, args.out / args.plan.name)
    with (args.out / LOG).open("ab") as log:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    (args.out / "pid").write_text(f"{process.pid}\n", encoding="utf-8")
    return wait(args.out, args.wait, process)


def copied(out: Path) -> Path:
    """The code of the sitting, in its folder: what changes or is copied anew elsewhere does not meet runs under way."""
    code = out / "code"
    if not code.exists():
        partial = out / "code.partial"
        shutil.rmtree(partial, ignore_errors=True)
        for name in CODE:
            shutil.copytree(ROOT / name, partial / name, ignore=shutil.ignore_patterns("__pycache__"))
        partial.rename(code)
    return code


def wait(out: Path, seconds: float, process: subprocess.Popen[bytes] | None = None) -> int:
    """Until the sitting is done or has ended, at most so long; then the end of its log."""
    until = time.monotonic() + seconds
    pid = int((out / "pid").read_text(encoding="utf-8"))
    while time.monotonic() < until and not (out / DONE).exists():
        if process.poll() is not None if process else not Path(f"/proc/{pid}").exists():
            break
        time.sleep(0.5)
    print("\n".join((out / LOG).read_text(encoding="utf-8", errors="replace").splitlines()[-25:]))
    under_way = process.poll() is None if process else Path(f"/proc/{pid}").exists()
    print("done" if (out / DONE).exists() else "under way: wait again" if under_way else "ended before it was done")
    return 0 if (out / DONE).exists() or under_way else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("pack", help="what the other machine lacks").add_argument("place", type=Path)
    sitting = verbs.add_parser("run", help="start, blocks, files to bring back")
    sitting.add_argument(
        "plan", type=Path, help="a plan for rewardrate compare; a start is trained if it names ./runs/start"
    )
    sitting.add_argument("blocks", nargs="*", metavar="TASK:SEED", help="default: all of the plan")
    sitting.add_argument("--out", type=Path, required=True, help="folder of the sitting; the same one resumes")
    sitting.add_argument("--to", type=Path, help="folder for the files (default: OUT/bundles)")
    sitting.add_argument("--carry", type=Path, help="folder that `pack` made, where there is no package index")
    sitting.add_argument("--start", type=Path, help="a model to begin from, instead of training one")
    sitting.add_argument("--seconds", type=float, default=1500.0, help="of the whole sitting")
    sitting.add_argument("--wait", type=float, default=540.0, help="seconds after which the call returns")
    sitting.add_argument("--steps", type=int, nargs="+", default=STEPS, help="at which models of the start are kept")
    sitting.add_argument("--replies", type=int, default=12, help="of each model for each task, to measure it")
    sitting.add_argument("--set", action="append", default=[], metavar="a.b=c", help="of the start's training")
    sitting.add_argument("--jobs", type=int, help="runs side by side")
    sitting.add_argument("--here", action="store_true", help="in this process, to its end")
    waiting = verbs.add_parser("wait", help="how far a sitting is")
    waiting.add_argument("out", type=Path)
    waiting.add_argument("--seconds", type=float, default=540.0)
    args = parser.parse_args()
    if args.verb == "pack":
        pack(args.place)
        return 0
    return run(args) if args.verb == "run" else wait(args.out.resolve(), args.seconds)


if __name__ == "__main__":
    sys.exit(main())
