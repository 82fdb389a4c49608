"""Four small GPU kernels (Triton) for one decoding step; policies/fused.py calls them.

The library's network launches some thirty kernels per layer; here they are add + norm, rotate + store, attend (and
combine) and gate, beside the matrix products of the vendor's library. Arithmetic is fp32, rounded where the network
rounds.

Shapes: n rows, H heads, G heads of keys, D head width, C capacity of the cache.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def add_norm(x, change, weight, out, width, eps, add: tl.constexpr, block: tl.constexpr) -> None:
    """Add, then norm: x += change (if `add`); out = weight * x / sqrt(mean(x^2) + eps). Grid (n); x [n, width]."""
    at = tl.program_id(0) * width + tl.arange(0, block)
    inside = tl.arange(0, block) < width
    kind = x.dtype.element_ty
    value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    if add:
        value = (value + tl.load(change + at, mask=inside, other=0.0).to(tl.float32)).to(kind)
        tl.store(x + at, value, mask=inside)
        value = value.to(tl.float32)
    scale = tl.rsqrt(tl.sum(value * value, axis=0) / width + eps)
    factor = tl.load(weight + tl.arange(0, block), mask=inside, other=0.0).to(tl.float32)
    tl.store(out + at, ((value * scale).to(kind).to(tl.float32) * factor).to(kind), mask=inside)


@triton.jit
def rotate_store(
    qkv,
    cosines,
    sines,
    position,
    column,
    query,
    keys,
    values,
    heads,
    groups,
    capacity,
    width: tl.constexpr,
) -> None:
    """Rotate queries and keys by their position; keys and values go to `column` of the cache.

    Grid (n, H + 2G) over qkv [n, (H + 2G) * D]. query [n, H, D]; keys, values [n, G, C, D]; cosines, sines [C, D].
    """
    row, head = tl.program_id(0), tl.program_id(1)
    half: tl.constexpr = width // 2
    low = tl.arange(0, half)
    source = qkv + (row * (heads + 2 * groups) + head) * width
    first = tl.load(source + low)
    second = tl.load(source + half + low)
    place = tl.load(column)
    if head >= heads + groups:
        target = values + ((row * groups + head - heads - groups) * capacity + place) * width
    else:
        turn = tl.load(position + row) * width
        # Rotary positions: entries i and i + D/2 of a head are a pair, rotated by the angle of the token's position.
        one, two = first.to(tl.float32), second.to(tl.float32)
        first = (one * tl.load(cosines + turn + low) - two * tl.load(sines + turn + low)).to(first.dtype)
        second = (two * tl.load(cosines + turn + half + low) + one * tl.load(sines + turn + half + low)).to(first.dtype)
        if head < heads:
            target = query + (row * heads + head) * width
        else:
            target = keys + ((row * groups + head - heads) * capacity + place) * width
    tl.store(target + low, first)
    tl.store(target + half + low, second)


@triton.jit
def attend(
    query,
    keys,
    values,
    bias,
    column,
    sums,
    maxima,
    weights,
    scale,
    capacity,
    heads_per_group: tl.constexpr,
    padded: tl.constexpr,
    width: tl.constexpr,
    block: tl.constexpr,
    parts: tl.constexpr,
) -> None:
    """Attention of one token per row over one part of columns 0..column: the softmax's maximum, weight and sum.

    Grid (n, G, parts). `heads_per_group` heads share a head of keys, padded to `padded` rows of the product. bias
    [n, C] is added to the scores: 0, or -inf where a column is masked. sums [n, H, parts, D], maxima and weights
    [n, H, parts].
    """
    # Flash decoding (Dao et al., 2023). With one query per row there is no parallelism in the queries, so the cache is
    # cut into parts that programs read independently; `combine` merges them. The heads of a group stand as the rows of
    # one matrix product, so its keys and values are read once for all of them.
    row, group, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    groups = tl.num_programs(1)
    count = tl.load(column) + 1
    length = tl.cdiv(tl.cdiv(count, parts), block) * block
    begin = part * length
    end = tl.minimum(count, begin + length)
    inner, across = tl.arange(0, width), tl.arange(0, padded)
    real = across < heads_per_group
    heads = (row * groups + group) * heads_per_group + across
    asked = tl.load(query + heads[:, None] * width + inner[None, :], mask=real[:, None], other=0.0)
    base = (row * groups + group) * capacity
    # The softmax runs online: `top` is the largest score so far, `weight` the sum of exp(score - top), `total` the
    # weighted sum of values. A larger maximum rescales both by exp(old - new).
    top = tl.full([padded], float("-inf"), tl.float32)
    weight = tl.zeros([padded], tl.float32)
    total = tl.zeros([padded, width], tl.float32)
    for at in range(begin, end, block):
        columns = at + tl.arange(0, block)
        inside = columns < end
        where = (base + columns)[:, None] * width + inner[None, :]
        key = tl.load(keys + where, mask=inside[:, None], other=0.0)
        score = tl.dot(asked, tl.trans(key), input_precision="ieee") * scale
        masked = tl.load(bias + row * capacity + columns, mask=inside, other=float("-inf")).to(tl.float32)
        score += masked[None, :]
        higher = tl.maximum(top, tl.max(score, axis=1))
        safe = tl.where(higher == float("-inf"), 0.0, higher)  # all masked so far: -inf - -inf would be NaN
        chance = tl.exp(score - safe[:, None])
        rescale = tl.exp(top - safe)
        value = tl.load(values + where, mask=inside[:, None], other=0.0)
        total = total * rescale[:, None] + tl.dot(chance.to(value.dtype), value, input_precision="ieee")
        weight = weight * rescale + tl.sum(chance, axis=1)
        top = higher
    slot = heads * parts + part
    tl.store(sums + slot[:, None] * width + inner[None, :], total, mask=real[:, None])
    tl.store(maxima + slot, top, mask=real)
    tl.store(weights + slot, weight, mask=real)


@triton.jit
def combine(sums, maxima, weights, out, width: tl.constexpr, parts: tl.constexpr) -> None:
    """Merge the parts of every head's attention. Grid (n * H); out [n, H, D]."""
    # Each part's sums are relative to its own maximum; exp(maximum - largest) brings them to a common one.
    head = tl.program_id(0)
    part, inner = tl.arange(0, parts), tl.arange(0, width)
    top = tl.load(maxima + head * parts + part)
    scale = tl.exp(top - tl.max(top, axis=0))
    weight = tl.sum(scale * tl.load(weights + head * parts + part), axis=0)
    values = tl.load(sums + (head * parts + part)[:, None] * width + inner[None, :])
    total = tl.sum(values * scale[:, None], axis=0) / weight
    tl.store(out + head * width + inner, total.to(out.dtype.element_ty))


@triton.jit
def gate(both, out, width, block: tl.constexpr) -> None:
    """Gate: out = silu(left half) * right half of both [n, 2 * width]. Grid (n, width / block)."""
    row = tl.program_id(0)
    at = tl.program_id(1) * block + tl.arange(0, block)
    inside = at < width
    left = tl.load(both + row * 2 * width + at, mask=inside, other=0.0).to(tl.float32)
    right = tl.load(both + row * 2 * width + width + at, mask=inside, other=0.0).to(tl.float32)
    kind = out.dtype.element_ty
    tl.store(out + row * width + at, ((left * tl.sigmoid(left)).to(kind).to(tl.float32) * right).to(kind), mask=inside)
