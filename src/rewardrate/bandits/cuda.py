"""The same trials on one NVIDIA GPU: one thread per trial, or one warp or block where a dedicated kernel is faster.

The loop and the agents are those of the CPU, compiled for the GPU. Policy gradients (one warp per trial) and sampled
C-UCB (one block per trial) have dedicated kernels with the same equations; sums round differently, so results agree to
rounding at first and in distribution later. Exact C-UCB branches too much for a GPU and runs on the CPU's cores at the
same time.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import cuda
from numba.core.errors import NumbaError
from numpy.typing import NDArray

from rewardrate.bandits import gradient_cuda, policy_gradient, sampled_cuda
from rewardrate.bandits.agents import Agent
from rewardrate.bandits.agents.cucb import CUCB
from rewardrate.bandits.compiled import is_compiled, jit_fresh
from rewardrate.bandits.engine import Traces, error_summary, simulate_many, traces_of
from rewardrate.bandits.jobs import Finished, TrialBatch
from rewardrate.bandits.kernels import states_of
from rewardrate.bandits.trial import make_loop, tables_of
from rewardrate.errors import InfrastructureError, InputError

THREADS = 32  # trials per block: small, so that few trials still reach every multiprocessor
IN_FLIGHT = 512  # batches on the GPU at a time, each in its own stream: a thread is slow, so the more the better
POLL_SECONDS = 0.01  # between two checks for finished batches
MEMORY_SHARE = 0.6  # of the GPU's free memory that states may take


class Launch(NamedTuple):
    """A batch on the GPU."""

    number: int
    batch: TrialBatch
    stream: Any
    start: Callable[[], None]
    done: Any
    "Event recorded behind the batch's kernel."
    out: Any
    buffers: tuple[Any, ...]
    "Device arrays that must live until the kernel is done."
    memory_bytes: int


class _Stopped(Exception):
    """Stops the cores' trials when nobody waits for their results any more."""


@cache
def configure_numba() -> None:
    """Process-wide settings that numba's CUDA needs; before the first kernel, and only where a GPU is asked for."""
    # Hardware queues of the GPU: with fewer, a kernel that waits holds up the streams that share its queue.
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
    vars(np).setdefault("row_stack", np.vstack)  # NumPy 2.5 dropped this name, and numba-cuda 0.30 still asks for it
    warnings.filterwarnings("ignore", message=".*Grid size")  # a small batch leaves most of the GPU idle, as it must


def check_gpu() -> None:
    """InputError where there is no usable GPU."""
    configure_numba()
    try:
        ready = cuda.is_available()
    except Exception:
        ready = False
    if not ready:
        rule = "numba finds no NVIDIA GPU here, or not the parts of CUDA that it compiles with"
        remedy = "pip install 'rewardrate[bandit,bandit-gpu]'; without engine the CPU is used"
        raise InputError("engine", "cuda", rule, remedy)


def placement(agent: Agent, batch: TrialBatch) -> str:
    """What runs an agent's trials: a GPU "thread", "warp" or "block" each, or the CPU's "cores"."""
    actions, contexts = batch.world.actions, batch.world.contexts
    if isinstance(agent, CUCB):
        small = max(actions, contexts) <= sampled_cuda.MAX_SIZE
        return "block" if agent.policies is not None and small else "cores"
    state = agent.start(batch.world)
    if not (isinstance(state, np.ndarray) and state.ndim == 1 and state.dtype == np.float64):
        return "cores"
    own = (agent.act, agent.learn, agent.price) == (policy_gradient.act, policy_gradient.learn, policy_gradient.price)
    return "warp" if own and actions <= gradient_cuda.MAX_ACTIONS else "thread"


def batch_placement(batch: TrialBatch) -> str:
    """`placement` of a whole batch; InputError where its agents cannot share a kernel."""
    kinds = {placement(agent, batch) for agent in batch.agents} or {"thread"}
    kind = kinds.pop()
    starts = [agent.start(batch.world) for agent in batch.agents] if kind in ("thread", "warp") else []
    if kinds or len({start.size for start in starts}) > 1 or len({agent.act for agent in batch.agents}) > 1:
        rule = "agents that run together on a GPU must be of one class, with states of one size"
        raise InputError("agents", batch.agents, rule, "give them labels of their own")
    return kind


def run_on_gpu(batches: Sequence[TrialBatch], steps: int, workers: int = 1) -> Finished:
    """Every batch, in the order in which they finish. Batches for the cores run beside those on the GPU."""
    check_gpu()
    placements = [batch_placement(batch) for batch in batches]
    cpu_queue = deque((i, batch) for i, batch in enumerate(batches) if placements[i] == "cores")
    gpu_queue = deque((i, batch) for i, batch in enumerate(batches) if placements[i] != "cores")
    results: queue.Queue[tuple[int, list[Traces]] | BaseException] = queue.Queue()
    stop = threading.Event()
    cores = threading.Thread(target=_run_on_cores, args=(cpu_queue, steps, workers, results, stop), daemon=True)
    cores.start()
    left = len(batches)
    try:
        for result in _translate_errors(_run(gpu_queue, steps)):
            if result is not None:
                left -= 1
                yield result
            while not results.empty():
                left -= 1
                yield _unwrap(results.get())
        while left:
            left -= 1
            yield _unwrap(results.get())
    finally:
        stop.set()
        cores.join()


def simulate_on_gpu(
    world: Any, agents: Sequence[Agent], seeds: NDArray[np.int64], steps: int, marks: NDArray[np.int64]
) -> list[Traces]:
    """One batch, agent by agent if they are of several kinds."""
    batches = [TrialBatch(world, [agent], seeds, marks) for agent in agents]
    found = dict(run_on_gpu(batches, steps))
    return [found[i][0] for i in range(len(agents))]


def _unwrap(item: tuple[int, list[Traces]] | BaseException) -> tuple[int, list[Traces]]:
    if isinstance(item, BaseException):
        raise item
    return item


def _run_on_cores(
    batches: deque[tuple[int, TrialBatch]], steps: int, workers: int, results: queue.Queue[Any], stop: threading.Event
) -> None:
    """The batches of the CPU's cores, in a thread of their own."""

    def check_stop(_: int) -> None:
        if stop.is_set():
            raise _Stopped

    try:
        while batches and not stop.is_set():
            i, batch = batches.popleft()
            traces = simulate_many(
                batch.world, batch.agents, batch.seeds, steps, marks=batch.marks, workers=workers, progress=check_stop
            )
            results.put((i, traces))
    except BaseException as error:
        results.put(error)


Results = Iterator[tuple[int, list[Traces]] | None]
"Finished batches; None while none has finished for a while."


def _translate_errors(results: Results) -> Results:
    """The same results; errors of numba and the driver as our own."""
    try:
        yield from results
    except NumbaError as error:
        rule = f"numba cannot compile it for a GPU ({error_summary(error)})"
        raise InputError("agent", "engine cuda", rule) from None
    except Exception as error:
        if not _is_driver_error(error):
            raise
        remedy = "finished cells are kept, and the same command resumes"
        raise InfrastructureError(f"the GPU failed ({error}); {remedy}") from None


def _is_driver_error(error: Exception) -> bool:
    """By name: numba and numba-cuda each have a class of their own for it."""
    return type(error).__name__ in ("CudaAPIError", "CudaDriverError", "LinkerError", "NvvmError")


def _run(batches: deque[tuple[int, TrialBatch]], steps: int) -> Results:
    """Keep the GPU full, and yield batches as they finish.

    Freeing device memory waits for every running kernel, so where all batches fit, it is deferred to the end.
    """
    _release_memory()
    limit = MEMORY_SHARE * free_memory_bytes()
    try:
        if sum(_memory_bytes(batch) for _, batch in batches) <= limit:
            with cuda.defer_cleanup():
                yield from _run_within(batches, steps, limit)
        else:
            yield from _run_within(batches, steps, limit)
    finally:
        _release_memory()


def _run_within(batches: deque[tuple[int, TrialBatch]], steps: int, limit: float) -> Results:
    """Prepare as many batches as fit into `limit` bytes, start them together, refill when one is done."""
    running: list[Launch] = []
    while batches or running:
        prepared: list[Launch] = []
        while batches and len(running) + len(prepared) < IN_FLIGHT:
            number, batch = batches[0]
            need = _memory_bytes(batch)
            present = [*running, *prepared]
            if present and need + sum(launch.memory_bytes for launch in present) > limit:
                break
            try:
                launch = _prepare(number, batch, steps, need) if batch.agents else None
            except Exception as error:
                if not present or "OUT_OF_MEMORY" not in str(error):
                    raise
                break  # another process took the memory: wait until one of ours is done
            batches.popleft()
            if launch is None:
                yield number, []
            else:
                prepared.append(launch)
        # Copies were queued by `_prepare`, kernels start only now: a copy would wait behind kernels that have not
        # begun. The largest worlds start first, so that what is left at the end is short.
        for launch in sorted(prepared, key=lambda launch: -launch.batch.world.contexts):
            launch.start()
            launch.done.record(launch.stream)
        running += prepared
        del prepared  # else a finished batch's buffers would be held until the next round
        if running:
            while (place := _first_finished(running)) is None:
                yield None
                time.sleep(POLL_SECONDS)
            yield _collect(running.pop(place))


def _collect(launch: Launch) -> tuple[int, list[Traces]]:
    """The results of a finished batch, on the host."""
    out = launch.out.copy_to_host(stream=launch.stream)
    launch.stream.synchronize()
    size = len(launch.batch.seeds)
    return launch.number, traces_of(out.reshape(-1, size, *out.shape[1:]), launch.batch.seeds, launch.batch.marks)


def _release_memory() -> None:
    """Free device memory that `defer_cleanup` left allocated."""
    with contextlib.suppress(Exception):  # numba's own internals; without them memory is only freed later
        context = cuda.current_context()
        for owner in (context.memory_manager, context):
            owner.deallocations.clear()


def _first_finished(running: Sequence[Launch]) -> int | None:
    """The place of a finished batch, if there is one."""
    for place, launch in enumerate(running):
        if not hasattr(launch.done, "query") or launch.done.query():  # numba's simulator runs a kernel when it starts
            return place
    return None


def free_memory_bytes() -> float:
    """Free memory of the GPU; a large number where it is simulated."""
    try:
        return float(cuda.current_context().get_memory_info()[0])
    except Exception:
        return 1e9


def _memory_bytes(batch: TrialBatch) -> int:
    if not batch.agents:
        return 0
    cells = batch.world.contexts * batch.world.actions
    state = batch.agents[0].start(batch.world)
    size = state.size if isinstance(state, np.ndarray) else 6 * cells
    trials = len(batch.agents) * len(batch.seeds)
    each = size + 3 * len(batch.marks) + batch.world.arms + batch.world.contexts
    return 8 * (trials * int(each) + len(batch.agents) * int(size))


def _prepare(number: int, batch: TrialBatch, steps: int, memory_bytes: int) -> Launch:
    """Copy to the GPU what a batch needs; nothing runs before `Launch.start`."""
    stream = cuda.stream()
    seeds = np.asarray(batch.seeds, dtype=np.int64)
    parameters = np.stack([agent.parameters(batch.world) for agent in batch.agents])
    trials = len(batch.agents) * seeds.size
    out = cuda.device_array((trials, 3, len(batch.marks)), np.float64, stream=stream)
    arrays = [np.asarray(batch.marks, np.int64), *tables_of(batch.world), seeds, parameters]
    inputs = [cuda.to_device(np.ascontiguousarray(array), stream=stream) for array in arrays]
    permutations = [
        cuda.device_array((trials, size), np.int64, stream=stream) for size in (batch.world.arms, batch.world.contexts)
    ]
    prepare = PREPARE[placement(batch.agents[0], batch)]
    start, states = prepare(batch, steps, inputs=inputs, permutations=permutations, out=out, stream=stream)
    return Launch(
        number=number,
        batch=batch,
        stream=stream,
        start=start,
        done=cuda.event(),
        out=out,
        buffers=(*states, *inputs, *permutations),
        memory_bytes=memory_bytes,
    )


def prepare_thread(
    batch: TrialBatch, steps: int, *, inputs: list[Any], permutations: list[Any], out: Any, stream: Any
) -> tuple[Callable[[], None], tuple[Any, ...]]:
    """What starts a batch of trials of any agent, and the device arrays it works in."""
    first, states = states_of(batch, stream)
    agent = batch.agents[0]
    kernel = trial_kernel(agent.act, agent.learn, agent.price)
    blocks = (out.shape[0] + THREADS - 1) // THREADS

    def start() -> None:
        kernel[blocks, THREADS, stream](steps, *inputs, first, states, *permutations, out)

    return start, (first, states)


PREPARE = {"thread": prepare_thread, "warp": gradient_cuda.prepare_gradient, "block": sampled_cuda.prepare_sampled}


@lru_cache(maxsize=64)
def trial_kernel(act: Callable[..., Any], learn: Callable[..., Any], price: Callable[..., Any]) -> Any:
    """A kernel whose thread i runs trial i: configuration i // seeds on seed i % seeds."""
    functions = [part if is_compiled(part) else jit_fresh(part) for part in (act, learn, price)]
    loop = cuda.jit(device=True)(make_loop(*functions))

    def kernel(
        steps: Any, marks: Any, reward: Any, seconds: Any, gap: Any, numbers: Any, seeds: Any, parameters: Any,
        first: Any, states: Any, arm_of: Any, context_of: Any, out: Any,
    ) -> None:  # fmt: skip
        i = cuda.grid(1)
        if i < out.shape[0]:
            state = states[i]
            configuration = i // seeds.size
            for j in range(state.size):
                state[j] = first[configuration, j]
            seed = seeds[i - configuration * seeds.size]
            loop(
                seed, steps, marks, reward, seconds, gap, numbers, parameters[configuration], state,
                arm_of[i], context_of[i], out[i],
            )  # fmt: skip

    return cuda.jit(kernel)
