"""Each kernel against the formula it stands for. Needs triton and a GPU (or TRITON_INTERPRET=1)."""

import os

import pytest
import torch

pytest.importorskip("triton", reason="the kernels need triton, which comes with torch for GPUs")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(DEVICE == "cpu" and not INTERPRETED, reason="needs an NVIDIA GPU or TRITON_INTERPRET=1"),
]


def normal(*shape):
    return torch.randn(*shape, device=DEVICE)


@pytest.mark.parametrize("add", [False, True])
def test_add_norm(add):
    from rewardrate.policies import kernels

    torch.manual_seed(0)
    x, change, weight, out = normal(5, 96), normal(5, 96), normal(96), normal(5, 96)
    total = x + change if add else x.clone()
    kernels.add_norm[(5,)](x, change, weight, out, 96, 1e-6, add=add, block=128)
    torch.testing.assert_close(x, total)
    torch.testing.assert_close(out, weight * total * (total.square().mean(1, keepdim=True) + 1e-6).rsqrt())


def test_rotate_store():
    from rewardrate.policies import kernels

    torch.manual_seed(1)
    rows, heads, groups, width, capacity = 3, 4, 2, 16, 8
    qkv, angle = normal(rows, heads + 2 * groups, width), normal(capacity, width // 2)
    cosines, sines = angle.cos().repeat(1, 2), angle.sin().repeat(1, 2)
    position, column = torch.tensor([1, 5, 2], device=DEVICE), torch.tensor([6], device=DEVICE)
    query, keys, values = normal(rows, heads, width), normal(rows, groups, capacity, width), normal(rows, groups, 8, 16)
    before = keys.clone()
    grid = (rows, heads + 2 * groups)
    kernels.rotate_store[grid](
        qkv, cosines, sines, position, column, query, keys, values, heads, groups, capacity, width=width
    )
    turned = torch.cat([-qkv[..., 8:], qkv[..., :8]], dim=-1)
    rotated = qkv * cosines[position].unsqueeze(1) + turned * sines[position].unsqueeze(1)
    torch.testing.assert_close(query, rotated[:, :heads])
    torch.testing.assert_close(keys[:, :, 6], rotated[:, heads : heads + groups])
    torch.testing.assert_close(values[:, :, 6], qkv[:, heads + groups :])
    assert torch.equal(keys[:, :, :6], before[:, :, :6]), "other columns are left alone"


@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("last", [0, 100, 255])
def test_attend_and_combine(parts, last):
    from rewardrate.policies import kernels

    torch.manual_seed(2)
    rows, groups, each, width, capacity = 2, 2, 3, 16, 256
    query, keys, values = normal(rows, groups * each, width), *(normal(rows, groups, capacity, width) for _ in range(2))
    bias = torch.zeros(rows, capacity, device=DEVICE)
    bias[0, : last // 2] = float("-inf")
    sums = normal(rows, groups * each, parts, width)
    maxima, weights = normal(rows, groups * each, parts), normal(rows, groups * each, parts)
    out, column = normal(rows, groups * each, width), torch.tensor([last], device=DEVICE)
    kernels.attend[(rows, groups, parts)](
        query, keys, values, bias, column, sums, maxima, weights, 0.25, capacity,
        heads_per_group=each, padded=16, width=width, block=64, parts=parts,
    )  # fmt: skip
    kernels.combine[(rows * groups * each,)](sums, maxima, weights, out, width=width, parts=parts)
    expected = torch.nn.functional.scaled_dot_product_attention(
        query.view(rows, groups, each, width),
        keys[:, :, : last + 1],
        values[:, :, : last + 1],
        attn_mask=bias[:, None, None, : last + 1].expand(rows, 1, each, last + 1),
        scale=0.25,
    )
    torch.testing.assert_close(out.view_as(expected), expected, atol=2e-5, rtol=2e-5)


def test_gate():
    from rewardrate.policies import kernels

    torch.manual_seed(3)
    both, out = normal(3, 2 * 100), normal(3, 100)
    kernels.gate[(3, 2)](both, out, 100, block=64)
    torch.testing.assert_close(out, torch.nn.functional.silu(both[:, :100]) * both[:, 100:])
