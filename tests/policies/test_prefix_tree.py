"""Rows as a prefix tree: nothing is lost, no prefix is computed twice, no row sees another's tokens."""

import pytest

torch = pytest.importorskip("torch", reason="needs the agent extra")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from rewardrate.policies import prefix_tree  # noqa: E402
from rewardrate.policies.prefix_tree import PrefixTree, Segment, build_tree, common_prefix  # noqa: E402

CPU = torch.device("cpu")
LONG = tuple(range(100, 100 + prefix_tree.MIN_SHARED))
tokens = st.lists(st.integers(0, 3), min_size=1, max_size=5).map(tuple)


@st.composite
def batches(draw):
    prefix = draw(st.sampled_from([(), LONG[:-1], LONG, LONG * 2]))
    prompts = draw(st.lists(tokens, min_size=1, max_size=6))
    return [prefix + prompt for prompt in prompts], [draw(tokens) for _ in prompts]


def lineage(built, number):
    """Columns of a segment's ancestors and of itself, in the order in which a row reads them."""
    starts = [0]
    for segment in built.segments:
        starts.append(starts[-1] + segment.length)
    line = (*built.segments[number].ancestors, number)
    return [column for i in line for column in range(starts[i], starts[i + 1])]


@given(batches())
@settings(max_examples=200, deadline=None)
def test_every_row_can_be_read_off_the_tree_with_its_positions_and_what_predicts_its_reply(batch):
    prompts, replies = batch
    built, columns = build_tree(prompts, replies)
    lines = [lineage(built, i) for i in range(len(built.segments))]
    at = 0
    for prompt, reply in zip(prompts, replies, strict=True):
        predicting = columns[at : at + len(reply)]
        at += len(reply)
        whole = [
            line
            for line in lines
            if tuple(built.tokens[c] for c in line) == prompt + reply
            and predicting == line[len(prompt) - 1 : len(prompt) + len(reply) - 1]
        ]
        assert whole
        assert [built.positions[c] for c in whole[0]] == list(range(len(prompt) + len(reply)))
    assert at == len(columns)
    assert sum(segment.length for segment in built.segments) == len(built.tokens) == len(built.positions)


@given(batches())
@settings(max_examples=100, deadline=None)
def test_no_prompt_is_computed_twice_and_a_long_common_beginning_once(batch):
    prompts, replies = batch
    built, _ = build_tree(prompts, replies)
    distinct = set(prompts)
    shared = common_prefix(sorted(distinct)) if len(distinct) > 1 else 0
    saved = shared * (len(distinct) - 1) if shared >= prefix_tree.MIN_SHARED else 0
    assert len(built.tokens) == sum(map(len, distinct)) - saved + sum(map(len, replies))


def test_the_layout_of_a_small_batch():
    built, columns = build_tree([(*LONG, 1), (*LONG, 2), (*LONG, 1)], [(7, 7), (8,), (9, 9)])
    assert built.tokens == [*LONG, 1, 7, 7, 9, 9, 2, 8]
    assert built.segments == [
        Segment(16),
        Segment(1, (0,)),
        Segment(2, (0, 1)),
        Segment(2, (0, 1)),
        Segment(2, (0,)),
    ]
    assert built.positions == [*range(16), 16, 17, 18, 17, 18, 16, 17]
    assert columns == [16, 17, 21, 16, 19]


def plain_attention(query, key, value, seen, scale):
    """softmax(q k / scale) v over the columns a token may see, written out."""
    repeat = query.shape[1] // key.shape[1]
    key, value = (array.repeat_interleave(repeat, dim=1) for array in (key, value))
    logits = (query @ key.transpose(2, 3)) * scale
    return (logits.masked_fill(~seen, -torch.inf).softmax(-1) @ value).transpose(1, 2)


@pytest.mark.parametrize("block", [1, 3, 128])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_attention_and_its_gradient_are_those_of_the_whole_matrix_with_a_mask(block, groups, monkeypatch):
    monkeypatch.setattr(prefix_tree, "BLOCK", block)
    segments = (Segment(5), Segment(3, (0,)), Segment(4, (0, 1)), Segment(1, (0, 1)), Segment(7, (0,)), Segment(2))
    tree = PrefixTree(segments, CPU)
    total = sum(tree.lengths)
    seen = torch.zeros(total, total, dtype=torch.bool)
    for number, segment in enumerate(segments):
        line = lineage(tree, number)
        for place in range(len(line) - segment.length, len(line)):
            seen[line[place], line[: place + 1]] = True
    torch.manual_seed(0)
    shapes = [(1, 4, total, 8), (1, groups, total, 8), (1, groups, total, 8)]
    arrays = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    weight = torch.randn(1, total, 4, 8, dtype=torch.float64)
    found = []
    for output in (tree.attend(*arrays, 0.3), plain_attention(*arrays, seen, 0.3)):
        found.append([output, *torch.autograd.grad((output * weight).sum(), arrays)])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=1e-10)


def test_a_kernel_for_sequences_of_different_lengths_gets_the_same_inputs(monkeypatch):
    """The kernel itself needs a GPU; here each sequence is computed by the obvious way from the kernel's inputs."""

    def obvious(query, key, value, layout, scale):
        parts = []
        for i in range(len(layout.query_starts) - 1):
            q = query[layout.query_starts[i] : layout.query_starts[i + 1]].transpose(0, 1)
            k, v = (a[layout.key_starts[i] : layout.key_starts[i + 1]].transpose(0, 1) for a in (key, value))
            assert q.shape[1] <= layout.most_queries
            assert k.shape[1] <= layout.most_keys
            seen = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool).tril(k.shape[1] - q.shape[1])
            parts.append(plain_attention(q[None], k[None], v[None], seen, scale)[0])
        return torch.cat(parts)

    monkeypatch.setattr(prefix_tree, "varlen_attention", obvious)
    torch.manual_seed(0)
    for segments in ((Segment(5), Segment(3, (0,)), Segment(4, (0, 1)), Segment(7, (0,))), (Segment(4), Segment(2))):
        tree = PrefixTree(segments, CPU)
        arrays = [torch.randn(1, heads, sum(tree.lengths), 8, dtype=torch.float64) for heads in (4, 2, 2)]
        torch.testing.assert_close(tree._attend_varlen(*arrays, 0.3), tree.attend(*arrays, 0.3))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_on_a_gpu_the_kernel_is_right_and_so_is_its_gradient():
    assert prefix_tree.varlen_works(128)
    tree = PrefixTree((Segment(50), Segment(30, (0,)), Segment(400, (0, 1)), Segment(7, (0,))), torch.device("cuda"))
    arrays = [torch.randn(1, heads, 487, 128, device="cuda", requires_grad=True) for heads in (12, 2, 2)]
    slopes = []
    for half in (True, False):
        with torch.autocast("cuda", torch.bfloat16, enabled=half):
            output = tree.attend(*arrays, None)
        slopes.append(torch.autograd.grad(output.float().square().sum(), arrays))
    for ours, plain in zip(*slopes, strict=True):
        assert (ours - plain).norm() < 0.03 * plain.norm()


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), min_size=1, max_size=5))
@settings(max_examples=200, deadline=None)
def test_the_common_prefix_is_common_and_leaves_every_prompt_a_token(prompts):
    n = common_prefix(prompts)
    assert all(prompt[:n] == prompts[0][:n] and len(prompt) > n for prompt in prompts)
    longer = n + 1
    assert any(len(prompt) <= longer for prompt in prompts) or len({tuple(p[:longer]) for p in prompts}) > 1
