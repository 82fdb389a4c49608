"""The same trials on one NVIDIA GPU: a thread runs a trial; a warp or a block where a kernel of its own pays.

The loop and the agents are those of the CPU, compiled for the card. Policy gradients (a warp a trial) and sampled
C-UCB (a block) have kernels of their own with the same equations; sums round differently, so results agree to
rounding at first and in distribution later. Exact C-UCB branches too much for a card and stays on the cores, which
work beside it.
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
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import cuda
from numba.core.errors import NumbaError
from numpy.typing import NDArray

from rewardrate.bandits import gradient_card, policy_gradient, sampled_card
from rewardrate.bandits.agents import Agent
from rewardrate.bandits.agents.cucb import CUCB
from rewardrate.bandits.compiled import is_compiled, jit_fresh
from rewardrate.bandits.engine import Traces, brief, simulate_many, traces_of
from rewardrate.bandits.jobs import Batch, Finished
from rewardrate.bandits.kernels import states_of
from rewardrate.bandits.trial import make_loop, tables_of
from rewardrate.errors import InfrastructureError, InputError

os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")  # queues of the card; a kernel that waits holds up its queue
vars(np).setdefault("row_stack", np.vstack)  # NumPy 2.5 dropped this name, and numba-cuda 0.30 still asks for it
warnings.filterwarnings("ignore", message=".*Grid size")  # few trials leave most of the card idle, and are soon done

THREADS = 32  # trials of a block: small, so that few trials still reach every multiprocessor
IN_FLIGHT = 512  # batches on the card at a time, each in its own stream: a thread is slow, so the more the better
PAUSE_SECONDS = 0.01  # between two looks at who has landed
MEMORY_SHARE = 0.6  # of the card's free memory that states may take


class Flight(NamedTuple):
    """A batch on its way."""

    number: int
    batch: Batch
    stream: Any
    launch: Callable[[], None]
    landed: Any
    "An event behind its last step."
    out: Any
    held: tuple[Any, ...]
    "Device arrays that must live until it lands."
    memory_bytes: int


class _Stopped(Exception):
    """Said to the cores when nobody waits for them any more."""


def check_card() -> None:
    """InputError where there is no usable GPU."""
    try:
        ready = cuda.is_available()
    except Exception:
        ready = False
    if not ready:
        rule = "numba finds no NVIDIA GPU here, or not the parts of CUDA that it compiles with"
        remedy = "pip install 'rewardrate[bandit,bandit-gpu]'; without engine the CPU is used"
        raise InputError("engine", "cuda", rule, remedy)


def where(agent: Agent, batch: Batch) -> str:
    """What runs an agent: "thread", "warp", "block" or "cores"."""
    actions, contexts = batch.world.actions, batch.world.contexts
    if isinstance(agent, CUCB):
        small = max(actions, contexts) <= sampled_card.LARGEST
        return "block" if agent.policies is not None and small else "cores"
    state = agent.start(batch.world)
    if not (isinstance(state, np.ndarray) and state.ndim == 1 and state.dtype == np.float64):
        return "cores"
    own = (agent.act, agent.learn, agent.price) == (policy_gradient.act, policy_gradient.learn, policy_gradient.price)
    return "warp" if own and actions <= gradient_card.LARGEST else "thread"


def kind_of(batch: Batch) -> str:
    """What runs a batch; InputError where its agents cannot share a kernel."""
    kinds = {where(agent, batch) for agent in batch.agents} or {"thread"}
    kind = kinds.pop()
    starts = [agent.start(batch.world) for agent in batch.agents] if kind in ("thread", "warp") else []
    if kinds or len({start.size for start in starts}) > 1 or len({agent.act for agent in batch.agents}) > 1:
        rule = "agents that run together on a GPU must be of one class, with states of one size"
        raise InputError("agents", batch.agents, rule, "give them labels of their own")
    return kind


def run_on_card(batches: Sequence[Batch], steps: int, workers: int = 1) -> Finished:
    """Every batch, in whatever order they land. Batches for the cores run beside those on the card."""
    check_card()
    kinds = [kind_of(batch) for batch in batches]
    cores = deque((i, batch) for i, batch in enumerate(batches) if kinds[i] == "cores")
    card = deque((i, batch) for i, batch in enumerate(batches) if kinds[i] != "cores")
    landed: queue.Queue[tuple[int, list[Traces]] | BaseException] = queue.Queue()
    stop = threading.Event()
    beside = threading.Thread(target=_work, args=(cores, steps, workers, landed, stop), daemon=True)
    beside.start()
    left = len(batches)
    try:
        for result in _named_failures(_fly(card, steps)):
            if result is not None:
                left -= 1
                yield result
            while not landed.empty():
                left -= 1
                yield _unwrap(landed.get())
        while left:
            left -= 1
            yield _unwrap(landed.get())
    finally:
        stop.set()
        beside.join()


def simulate_on_card(
    world: Any, agents: Sequence[Agent], seeds: NDArray[np.int64], steps: int, marks: NDArray[np.int64]
) -> list[Traces]:
    """One batch, agent by agent if they are of several kinds."""
    batches = [Batch(world, [agent], seeds, marks) for agent in agents]
    found = dict(run_on_card(batches, steps))
    return [found[i][0] for i in range(len(agents))]


def _unwrap(item: tuple[int, list[Traces]] | BaseException) -> tuple[int, list[Traces]]:
    if isinstance(item, BaseException):
        raise item
    return item


def _work(
    batches: deque[tuple[int, Batch]], steps: int, workers: int, landed: queue.Queue[Any], stop: threading.Event
) -> None:
    """The cores' share."""

    def heed(_: int) -> None:
        if stop.is_set():
            raise _Stopped

    try:
        while batches and not stop.is_set():
            i, batch = batches.popleft()
            traces = simulate_many(
                batch.world, batch.agents, batch.seeds, steps, marks=batch.marks, workers=workers, progress=heed
            )
            landed.put((i, traces))
    except BaseException as error:
        landed.put(error)


Landing = Iterator[tuple[int, list[Traces]] | None]


def _named_failures(flights: Landing) -> Landing:
    """The same, with what numba and the driver raise put into words."""
    try:
        yield from flights
    except NumbaError as error:
        raise InputError("agent", "engine cuda", f"numba cannot compile it for a GPU ({brief(error)})") from None
    except Exception as error:
        if not _is_driver_error(error):
            raise
        kept = "what was finished is kept, and the same command goes on"
        raise InfrastructureError(f"the GPU failed ({error}); {kept}") from None


def _is_driver_error(error: Exception) -> bool:
    """By name: numba and numba-cuda each have a class of their own for it."""
    return type(error).__name__ in ("CudaAPIError", "CudaDriverError", "LinkerError", "NvvmError")


def _fly(batches: deque[tuple[int, Batch]], steps: int) -> Landing:
    """Keep the card full; whoever is done first lands first. None: nobody has landed for a while.

    Giving memory back waits for all that flies, so where there is enough of it, that is put off to the end.
    """
    _give_back()
    room = MEMORY_SHARE * free_memory_bytes()
    try:
        if sum(_memory_bytes(batch) for _, batch in batches) <= room:
            with cuda.defer_cleanup():
                yield from _fly_within(batches, steps, room)
        else:
            yield from _fly_within(batches, steps, room)
    finally:
        _give_back()


def _fly_within(batches: deque[tuple[int, Batch]], steps: int, room: float) -> Landing:
    """A copy waits behind kernels that have not begun, so all that fits is copied first and launched then.

    The largest worlds begin first: what is left at the end is short.
    """
    flights: list[Flight] = []
    while batches or flights:
        boarding: list[Flight] = []
        while batches and len(flights) + len(boarding) < IN_FLIGHT:
            number, batch = batches[0]
            need = _memory_bytes(batch)
            waiting = [*flights, *boarding]
            if waiting and need + sum(flight.memory_bytes for flight in waiting) > room:
                break
            try:
                boarded = _board(number, batch, steps, need) if batch.agents else None
            except Exception as error:
                if not waiting or "OUT_OF_MEMORY" not in str(error):
                    raise
                break  # somebody else has it: first let one land
            batches.popleft()
            if boarded is None:
                yield number, []
            else:
                boarding.append(boarded)
        for flight in sorted(boarding, key=lambda flight: -flight.batch.world.contexts):
            flight.launch()
            flight.landed.record(flight.stream)
        flights += boarding
        del boarding
        if flights:
            while (place := _first_landed(flights)) is None:
                yield None
                time.sleep(PAUSE_SECONDS)
            yield _unloaded(flights.pop(place))


def _unloaded(flight: Flight) -> tuple[int, list[Traces]]:
    """What a flight brought; nothing of it is held any longer."""
    out = flight.out.copy_to_host(stream=flight.stream)
    flight.stream.synchronize()
    size = len(flight.batch.seeds)
    return flight.number, traces_of(out.reshape(-1, size, *out.shape[1:]), flight.batch.seeds, flight.batch.marks)


def _give_back() -> None:
    """Memory that is no longer used but not yet free: `defer_cleanup` leaves it so."""
    with contextlib.suppress(Exception):  # of numba's own; without it memory is only given back later
        context = cuda.current_context()
        for owner in (context.memory_manager, context):
            owner.deallocations.clear()


def _first_landed(flights: Sequence[Flight]) -> int | None:
    """The place of one that is done, if there is one."""
    for place, flight in enumerate(flights):
        if not hasattr(flight.landed, "query") or flight.landed.query():  # a simulated one is done when launched
            return place
    return None


def free_memory_bytes() -> float:
    """Free memory of the card; a large number where it is simulated."""
    try:
        return float(cuda.current_context().get_memory_info()[0])
    except Exception:
        return 1e9


def _memory_bytes(batch: Batch) -> int:
    if not batch.agents:
        return 0
    cells = batch.world.contexts * batch.world.actions
    state = batch.agents[0].start(batch.world)
    size = state.size if isinstance(state, np.ndarray) else 6 * cells
    trials = len(batch.agents) * len(batch.seeds)
    each = size + 3 * len(batch.marks) + batch.world.arms + batch.world.contexts
    return 8 * (trials * int(each) + len(batch.agents) * int(size))


def _board(number: int, batch: Batch, steps: int, memory_bytes: int) -> Flight:
    """Everything that a batch needs, on the card and ready to be launched."""
    stream = cuda.stream()
    seeds = np.asarray(batch.seeds, dtype=np.int64)
    parameters = np.stack([agent.parameters(batch.world) for agent in batch.agents])
    trials = len(batch.agents) * seeds.size
    out = cuda.device_array((trials, 3, len(batch.marks)), np.float64, stream=stream)
    arrays = [np.asarray(batch.marks, np.int64), *tables_of(batch.world), seeds, parameters]
    sent = [cuda.to_device(np.ascontiguousarray(array), stream=stream) for array in arrays]
    orders = [
        cuda.device_array((trials, size), np.int64, stream=stream) for size in (batch.world.arms, batch.world.contexts)
    ]
    board = BOARDS[where(batch.agents[0], batch)]
    launch, held = board(batch, steps, sent, orders, out, stream)
    return Flight(number, batch, stream, launch, cuda.event(), out, (*held, *sent, *orders), memory_bytes)


def board_thread(
    batch: Batch, steps: int, sent: list[Any], orders: list[Any], out: Any, stream: Any
) -> tuple[Callable[[], None], tuple[Any, ...]]:
    """What launches a batch of trials of any agent, and what must be kept until it lands."""
    first, states = states_of(batch, stream)
    agent = batch.agents[0]
    kernel = trial_kernel(agent.act, agent.learn, agent.price)
    blocks = (out.shape[0] + THREADS - 1) // THREADS

    def launch() -> None:
        kernel[blocks, THREADS, stream](steps, *sent, first, states, *orders, out)

    return launch, (first, states)


BOARDS = {"thread": board_thread, "warp": gradient_card.board_gradient, "block": sampled_card.board_sampled}


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
