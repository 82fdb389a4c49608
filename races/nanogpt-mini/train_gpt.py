"""Train a small GPT to a validation loss as fast as possible: torchrun --nproc_per_node=N train_gpt.py

The rules (docs/speedrun.md): the shards are fixed; the validation loss is the mean cross-entropy over exactly
VAL_TOKENS tokens of the validation files, printed every VAL_EVERY steps and at the last one, each time with the model
saved; the score is the wall clock of the whole process, and the loss that the referee computes from the saved model.
"""

import glob
import os
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

# The model and its training. Anything here and below may be changed, except where it says otherwise.
VOCABULARY = 1024  # tokens of the shards
LAYERS = 4
HEADS = 4
WIDTH = 128
SEQUENCE = 128  # tokens of context
BATCH = 32  # sequences of one step, all processes together
TRAIN_STEPS = 225
WARMUP_STEPS = 0
COOLDOWN = 0.5  # the last part of the steps, in which the learning rates go down to zero
MUON_RATE = 0.01  # for the matrices inside the blocks
EMBEDDING_RATE = 0.05
HEAD_RATE = 0.01
MOMENTUM = 0.95
NEWTON_SCHULZ_STEPS = 5

# Fixed by the rules.
SEED = int(os.environ.get("RACE_SEED", "1337"))  # the referee's: repeats of a script must differ
DATA = os.path.join(os.environ.get("DATA_PATH", "."), "data", "kjv1024")
TRAIN_FILES = os.path.join(DATA, "kjv_train_*.bin")
VAL_FILES = os.path.join(DATA, "kjv_val_*.bin")
VAL_TOKENS = 65536  # exactly
VAL_EVERY = 125  # steps
VAL_BATCH = 64  # sequences of one forward pass of validation, in one process


# ----------------------------------------------------------------------------------------------------------------
# The optimizer of the matrices


def orthogonal(matrix, steps):
    """The nearest orthogonal matrix, nearly: Newton-Schulz with a quintic whose slope at zero is steep."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = matrix / (matrix.norm() + 1e-7)
    wide = x.size(0) <= x.size(1)
    x = x if wide else x.T
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x if wide else x.T


class Muon(torch.optim.Optimizer):
    """Momentum, then the update made orthogonal, so that every direction of a matrix moves alike."""

    def __init__(self, parameters, lr, momentum):
        super().__init__(parameters, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(parameter)
                buffer = state["momentum"].lerp_(parameter.grad, 1 - group["momentum"])
                update = parameter.grad.lerp(buffer, group["momentum"])  # Nesterov
                scale = max(1, parameter.size(0) / parameter.size(1)) ** 0.5
                parameter.add_(orthogonal(update, NEWTON_SCHULZ_STEPS), alpha=-group["lr"] * scale)


# ----------------------------------------------------------------------------------------------------------------
# The model


def norm(x):
    return F.rms_norm(x, (x.size(-1),))


class Rotary(nn.Module):
    """Positions as rotations of pairs of channels."""

    def __init__(self, channels, length):
        super().__init__()
        frequency = (1 / 1024) ** torch.linspace(0, 1, channels // 2)
        angle = torch.outer(torch.arange(length).float(), frequency)
        self.register_buffer("cosine", angle.cos()[None, None], persistent=False)
        self.register_buffer("sine", angle.sin()[None, None], persistent=False)

    def forward(self, x):
        left, right = x.chunk(2, dim=-1)
        cosine, sine = self.cosine[:, :, : x.size(2)], self.sine[:, :, : x.size(2)]
        return torch.cat((left * cosine + right * sine, right * cosine - left * sine), dim=-1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.out.weight.data.zero_()
        self.rotary = Rotary(WIDTH // HEADS, SEQUENCE)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4).unbind(0)
        q, k = self.rotary(norm(q)), self.rotary(norm(k))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, WIDTH))


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = nn.Linear(4 * WIDTH, WIDTH, bias=False)
        self.down.weight.data.zero_()

    def forward(self, x):
        return self.down(F.relu(self.up(x)).square())


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention()
        self.mlp = MLP()

    def forward(self, x):
        x = x + self.attention(norm(x))
        return x + self.mlp(norm(x))


class GPT(nn.Module):
    """Tokens (sequences x positions) to the logits of the next token."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight.data.zero_()

    def forward(self, tokens):
        x = norm(self.embedding(tokens))
        for block in self.blocks:
            x = block(x)
        return self.head(norm(x)).float()


def loss_of(logits, targets):
    return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.reshape(-1))


# ----------------------------------------------------------------------------------------------------------------
# The tokens. Fixed by the rules: which tokens are read, and in which order.


def load_shard(path):
    with open(path, "rb") as file:
        header = np.frombuffer(file.read(256 * 4), dtype=np.int32)
        assert header[0] == 20240520 and header[1] == 1, f"{path} is not a shard"
        tokens = np.frombuffer(file.read(), dtype=np.uint16)
    assert len(tokens) == header[2], f"{path} is not complete"
    return torch.from_numpy(tokens.astype(np.int64))


def training_batches(sequences, rank, world):
    """Inputs and targets, shard after shard, round and round; every process takes its share of each step."""
    files = sorted(glob.glob(TRAIN_FILES))
    step_tokens = sequences * SEQUENCE * world
    while True:
        for file in files:
            tokens = load_shard(file)
            for start in range(0, len(tokens) - step_tokens, step_tokens):
                mine = start + rank * sequences * SEQUENCE
                part = tokens[mine : mine + sequences * SEQUENCE + 1]
                yield part[:-1].view(sequences, SEQUENCE), part[1:].view(sequences, SEQUENCE)


@torch.no_grad()
def validation_loss(model, tokens, rank, world, device):
    """The mean cross-entropy over exactly VAL_TOKENS tokens, in their order, all processes together."""
    model.eval()
    sequences = VAL_TOKENS // SEQUENCE
    assert sequences * SEQUENCE == VAL_TOKENS and sequences % world == 0
    inputs = tokens[:VAL_TOKENS].view(sequences, SEQUENCE)
    targets = tokens[1 : VAL_TOKENS + 1].view(sequences, SEQUENCE)
    total = torch.zeros((), device=device)
    for start in range(rank * sequences // world, (rank + 1) * sequences // world, VAL_BATCH):
        part = slice(start, min(start + VAL_BATCH, (rank + 1) * sequences // world))
        total += loss_of(model(inputs[part].to(device)), targets[part].to(device)) * targets[part].numel()
    dist.all_reduce(total)
    model.train()
    return (total / VAL_TOKENS).item()


def save_model(model, step):
    """Fixed by the rules: what the referee computes the loss from. Written whole, before the line is printed."""
    shape = (16, SEQUENCE)
    example = torch.zeros(shape, dtype=torch.int64, device=next(model.parameters()).device)
    with torch.no_grad():
        program = torch.jit.trace(model.eval(), example, check_trace=False)
    for name in (f"model_{step:06d}.pt", "model.pt"):
        program.save(name + ".part", _extra_files={"shape": "{} {}".format(*shape), "step": str(step)})
        os.replace(name + ".part", name)
    model.train()


# ----------------------------------------------------------------------------------------------------------------
# The race


def main():
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
        torch.set_float32_matmul_precision("high")
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    torch.manual_seed(SEED)
    assert BATCH % world == 0
    batches = training_batches(BATCH // world, rank, world)
    val_tokens = torch.cat([load_shard(file) for file in sorted(glob.glob(VAL_FILES))])

    raw = GPT().to(device)
    model = DistributedDataParallel(raw, broadcast_buffers=False) if world > 1 else raw
    adam_groups = [
        {"params": [raw.embedding.weight], "lr": EMBEDDING_RATE},
        {"params": [raw.head.weight], "lr": HEAD_RATE},
    ]
    optimizers = [
        torch.optim.AdamW(adam_groups, betas=(0.8, 0.95), eps=1e-10, weight_decay=0.0),
        Muon([p for p in raw.blocks.parameters() if p.ndim == 2], MUON_RATE, MOMENTUM),
    ]
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    for group in groups:
        group["peak"] = group["lr"]

    start, spent = time.perf_counter(), 0.0  # spent: training time without validation, informational
    for step in range(TRAIN_STEPS + 1):
        last = step == TRAIN_STEPS
        if last or step % VAL_EVERY == 0:
            spent += time.perf_counter() - start
            val_loss = validation_loss(raw, val_tokens, rank, world, device)
            if rank == 0:
                save_model(raw, step)
                average = 1000 * spent / max(step, 1)
                print(
                    f"step:{step}/{TRAIN_STEPS} val_loss:{val_loss:.4f} train_time:{1000 * spent:.0f}ms "
                    f"step_avg:{average:.2f}ms",
                    flush=True,
                )
            start = time.perf_counter()
        if last:
            break
        rate = min(1.0, (step + 1) / max(WARMUP_STEPS, 1), (TRAIN_STEPS - step) / (COOLDOWN * TRAIN_STEPS))
        for group in groups:
            group["lr"] = rate * group["peak"]
        inputs, targets = next(batches)
        loss_of(model(inputs.to(device)), targets.to(device)).backward()
        for optimizer in optimizers:
            optimizer.step()
        model.zero_grad(set_to_none=True)
        if rank == 0:
            now = spent + time.perf_counter() - start
            print(
                f"step:{step + 1}/{TRAIN_STEPS} train_time:{1000 * now:.0f}ms step_avg:{1000 * now / (step + 1):.2f}ms",
                flush=True,
            )
    dist.barrier()  # ranks that leave one by one now and then crash at exit
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
