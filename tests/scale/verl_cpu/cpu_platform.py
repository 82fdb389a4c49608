"""For tests alone: stock verl on a machine without a GPU. verl loads this in every process (VERL_USE_EXTERNAL_MODULES).

Its registries take a platform and a rollout engine; what they do not reach is put right below.
"""

import contextlib
import types

import torch
import torch.distributed
import transformers
import transformers.utils

transformers.utils.is_sklearn_available = lambda: False  # a kind of generation that we do not use loads it everywhere

from verl.plugin.platform.platform_base import PlatformBase  # noqa: E402
from verl.plugin.platform.platform_manager import PlatformRegistry  # noqa: E402
from verl.workers.rollout import base  # noqa: E402
from verl.workers.rollout.replica import RolloutReplicaRegistry  # noqa: E402


class _NoAccelerator(types.ModuleType):
    """What verl asks of torch.cuda, answered by a machine that has none."""

    def is_available(self):
        return False

    def current_device(self):
        return "cpu"

    def device_count(self):
        return 0

    def mem_get_info(self, *_):
        return 0, 0

    def get_device_name(self, *_):
        return "cpu"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: 0


@PlatformRegistry.register(platform="cpu")
class CpuPlatform(PlatformBase):
    """One logical device, which is the CPU."""

    device_name = vendor_name = property(lambda self: "cpu")
    device_module = property(lambda self: _NoAccelerator("no_accelerator"))

    def is_available(self):
        return True

    def current_device(self):
        return "cpu"

    def device_count(self):
        return 1

    def set_device(self, index):
        pass

    def synchronize(self, index=None):
        pass

    def manual_seed(self, seed):
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    def set_allocator_settings(self, settings):
        pass

    def empty_cache(self):
        pass

    def get_device_capability(self, index=0):
        return None, None

    def communication_backend_name(self):
        return "gloo"

    def visible_devices_envvar(self):
        return "CUDA_VISIBLE_DEVICES"

    @contextlib.contextmanager
    def nvtx_range(self, message):
        yield

    def profiler_start(self):
        pass

    def profiler_stop(self):
        pass

    def ray_resource_name(self):
        return "GPU"  # a number that Ray is told; there is none

    def ray_noset_envvars(self):
        return []

    def is_ipc_supported(self):
        return False

    def cudart(self):
        return None


def _rollout():
    from cpu_rollout import Replica

    return Replica


base._ROLLOUT_REGISTRY[("cpu", "async")] = "cpu_rollout.Weights"
RolloutReplicaRegistry.register("cpu", _rollout)

# 1. verl asks for the backend "cpu:gloo,cpu:gloo", which torch refuses.
_start = torch.distributed.init_process_group


def _one_backend(backend=None, *args, **kwargs):
    return _start("gloo" if backend == "cpu:gloo,cpu:gloo" else backend, *args, **kwargs)


torch.distributed.init_process_group = _one_backend

# 2. FSDP pins memory for the reference model, which needs an accelerator.
torch.Tensor.pin_memory = lambda self, *args, **kwargs: self
