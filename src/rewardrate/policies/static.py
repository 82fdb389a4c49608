"""A decoding loop without Python between tokens: fixed arrays, so that a GPU records one step and replays it.

Every number that changes from token to token lives in a tensor. On a CPU the same step runs unrecorded, which is how
it is tested there.

Shapes: n rows, V vocabulary, M most new tokens, C capacity of the cache.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rewardrate.policies.cache import RowCache
from rewardrate.policies.decoding import Prompts, forward, layer_count, read_prompts
from rewardrate.policies.fused import FusedStep

log = logging.getLogger(__name__)

VIEW = 256  # attention reads the cache in steps of this many columns; each has its own recording
PATIENCE = 32  # tokens between two looks at whether all rows have ended (a look waits for the GPU)

Draw = Callable[[Tensor, Tensor, Tensor | None], tuple[Tensor, Tensor, Tensor]]


class StaticLoop:
    """Arrays, cache and recordings for n rows; used again for every batch of the same shape.

    Weights are read where they lie, so they may change in place between batches.
    """

    def __init__(
        self, model: Any, shape: tuple[int, int, int], stops: Tensor, draw: Draw, *, penalise: bool, engine: str
    ) -> None:
        self.model, self.stops, self.draw = model, stops, draw
        self.rows, self.capacity, self.most = shape
        self.device, vocabulary = stops.device, int(model.config.get_text_config().vocab_size)
        limit = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        self.last_position = int(limit or self.capacity) - 1
        n, long = self.rows, torch.long
        self.cache = RowCache(layer_count(model), self.capacity)
        self.cache.column = self.column = self._zeros(1, dtype=long)
        self.time = self._zeros(1, dtype=long)
        self.token, self.position = self._zeros(n, 1, dtype=long), self._zeros(n, 1, dtype=long)
        self.done = self._zeros(n, dtype=torch.bool)
        self.bias = self._zeros(n, 1, 1, self.capacity, dtype=next(model.parameters()).dtype)  # 0, or -inf: masked
        self.uniforms = self._zeros(n, self.most, dtype=torch.float64)
        self.seen = self._zeros(n, vocabulary, dtype=torch.bool) if penalise else None
        self.tokens = self._zeros(n, self.most, dtype=long)
        self.logprobs, self.drawn = self._zeros(n, self.most), self._zeros(n, self.most)
        self.fused = FusedStep(model, n, self.capacity) if engine == "fused" else None
        self.recordable = self.device.type == "cuda"
        self.recordings: dict[int, torch.cuda.CUDAGraph] = {}
        self.pool: Any = None

    def _zeros(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.zeros(shape, dtype=dtype, device=self.device)

    def fits(self, rows: int, columns: int, room: int) -> bool:
        """Whether a batch can use these arrays without wasting half of them."""
        return rows <= self.rows <= 2 * rows and columns <= self.capacity and room <= self.most

    def run(self, prompts: Prompts, uniforms: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Reply to all prompts: tokens, log-probabilities, drawn log-probabilities [n, M] and lengths [n].

        `uniforms` may have fewer rows and columns than there is room for: rows beyond are not waited for.
        """
        computed, logits = read_prompts(self.model, prompts)
        if self.fused is not None:
            self.fused.refresh()
        self._reset(prompts, computed, uniforms)
        self.choose(logits[prompts.row])
        column = prompts.end
        for step in range(1, uniforms.shape[1]):
            if step % PATIENCE == 0 and bool(self.done.all()):
                break
            self._advance(min(self.capacity, -(-(column + 1) // VIEW) * VIEW))
            column += 1
        ends = (self.tokens.unsqueeze(2) == self.stops).any(2) & (
            torch.arange(self.most, device=self.device) < self.time
        )
        first = torch.where(ends, torch.arange(self.most, device=self.device), self.most).amin(1)
        return self.tokens, self.logprobs, self.drawn, torch.minimum(first + 1, self.time)

    def _reset(self, prompts: Prompts, computed: RowCache, uniforms: Tensor) -> None:
        self.cache.copy_from(computed, prompts.row)
        self.column.fill_(prompts.end)
        self.time.zero_()
        self.done.zero_()
        self.done[len(uniforms) :] = True
        self.bias.fill_(float("-inf"))
        self.bias[:, 0, 0, : prompts.end].masked_fill_(prompts.visible(), 0.0)
        self.bias[:, 0, 0, prompts.end] = 0.0
        self.position.copy_(prompts.lengths().unsqueeze(1))
        self.uniforms[: len(uniforms), : uniforms.shape[1]] = uniforms
        if self.seen is not None:
            self.seen.zero_()

    def choose(self, logits: Tensor) -> None:
        """Draw a token for every row and write it down; rows that have ended run on, and are cut off later."""
        uniform = self.uniforms.index_select(1, self.time).squeeze(1)
        token, logprob, drawn = self.draw(logits, uniform, self.seen)
        self.token.copy_(token.unsqueeze(1))
        self.tokens.index_copy_(1, self.time, self.token)
        self.logprobs.index_copy_(1, self.time, logprob.unsqueeze(1))
        self.drawn.index_copy_(1, self.time, drawn.unsqueeze(1))
        if self.seen is not None:
            self.seen.scatter_(1, self.token, True)
        self.done.logical_or_((self.token == self.stops).any(1))
        self.time.add_(1)

    def step(self) -> None:
        """One token for every row, from tensors into tensors."""
        if self.fused is not None:
            logits = self.fused(self.token, self.position, self.bias, self.cache)
        else:
            bias = self.bias[..., : self.cache.view]
            logits = forward(self.model, self.token, self.position, bias, self.cache)
        self.position.add_(1).clamp_(max=self.last_position)  # rows that have ended may run on
        self.column.add_(1)
        self.bias.index_fill_(3, self.column.clamp(max=self.capacity - 1), 0.0)
        self.choose(logits)

    def _advance(self, view: int) -> None:
        """Replay the recording for this view; the first step of a view runs plainly, then it is recorded."""
        self.cache.view = view = self.capacity if self.fused is not None else view  # it reads what is in use
        if not self.recordable:
            self.step()
        elif view in self.recordings:
            self.recordings[view].replay()
        else:
            self._record(view)

    def _record(self, view: int) -> None:
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.step()  # a real step: libraries make their workspaces outside the recording
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=self.pool):
                self.step()  # recorded, not run
        except RuntimeError as error:  # a model that waits for the GPU within a step cannot be recorded
            log.warning("steps of this model cannot be recorded and run one by one: %s", error)
            self.recordable = False
            return
        self.pool = self.pool or graph.pool()
        self.recordings[view] = graph
