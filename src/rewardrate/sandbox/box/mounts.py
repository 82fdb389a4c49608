"""The box's own world: namespaces, a root of read-only binds and sized memory file systems, loopback alone."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import socket
import stat
import struct
import time
from typing import Any

from rewardrate.sandbox.box import kernel

ROOT = "/tmp"  # where the new root is put together; whatever the host has there is hidden by it
INODES = "nr_inodes=64k"
DEVICES = ("null", "zero", "full", "random", "urandom")
# What a box shows of /proc beside its processes: what programs look for (cores, memory, file systems, a GPU's driver)
# and what the init needs. Everything else is covered, for the kernel counts there for the whole machine: a counter that
# nobody else moves would be a message to the next script, exact to the last bit.
SHOWN_OF_PROC = frozenset(
    [
        *("cmdline", "cpuinfo", "devices", "driver", "filesystems", "loadavg", "locks", "meminfo", "modules"),
        *("mounts", "net", "self", "stat", "sys", "sysvipc", "thread-self", "uptime", "version"),
    ]
)
COUNTERS_OF_SYS = (
    "fs/aio-nr",
    "fs/dentry-state",
    "fs/file-nr",
    "fs/inode-nr",
    "fs/inode-state",
    "fs/quota",
    "kernel/pty",
    "kernel/random/entropy_avail",
)


def enter(config: dict[str, Any]) -> None:
    """Become process 1 of new namespaces with a root of their own. The caller's process stays outside and waits."""
    root = os.geteuid() == 0
    uid, gid = os.geteuid(), os.getegid()
    flags = kernel.NEW_NS | kernel.NEW_PID | kernel.NEW_NET | kernel.NEW_IPC | kernel.NEW_UTS | kernel.NEW_CGROUP
    kernel.unshare(flags if root else flags | kernel.NEW_USER)
    if not root:
        for name, text in (("setgroups", "deny"), ("uid_map", f"1000 {uid} 1"), ("gid_map", f"1000 {gid} 1")):
            _write(f"/proc/self/{name}", text)
    watched, watch = os.pipe()
    first = os.fork()
    if first:
        kernel.prctl(kernel.DUMPABLE, 0)
        _, status = os.waitpid(first, 0)
        os._exit(0 if status == 0 else 70)
    kernel.prctl(kernel.PDEATHSIG, signal.SIGKILL)
    os.close(watch)
    if select.select([watched], [], [], 0)[0]:  # the process outside died before we asked to die with it
        os._exit(70)
    os.close(watched)
    _build(config, owner=f"uid={config['slot_uid']},gid={config['slot_uid']}," if root else "")
    _loopback()
    _small_buffers()
    socket.sethostname("box")


def _build(config: dict[str, Any], owner: str) -> None:
    # Sources may lie below ROOT on the host, so they are held open before it is covered.
    held = [(os.open(source, os.O_PATH), target) for source, target in config["mounts"] if os.path.exists(source)]
    kernel.mount("none", "/", "", kernel.PRIVATE | kernel.RECURSIVE)
    safe = kernel.NO_SUID | kernel.NO_DEV
    kernel.mount("tmpfs", ROOT, "tmpfs", safe, "size=1m,nr_inodes=4k,mode=755")
    for name in ("proc", "dev", "tmp", "job", "etc", "old"):
        os.mkdir(f"{ROOT}/{name}")
    kernel.mount("tmpfs", f"{ROOT}/dev", "tmpfs", kernel.NO_SUID | kernel.NO_EXEC, "size=4k,nr_inodes=64,mode=755")
    os.mkdir(f"{ROOT}/dev/shm")
    os.symlink("/proc/self/fd", f"{ROOT}/dev/fd")
    # Before the binds, which may lie below /tmp and must not be covered.
    sizes = {"/tmp": config["disk_bytes"] // 4, "/dev/shm": config["disk_bytes"] // 4, "/job": config["disk_bytes"]}
    for target, size in sizes.items():
        mode = "755" if target == "/job" else "1777"
        kernel.mount("tmpfs", ROOT + target, "tmpfs", safe, f"{owner}mode={mode},size={size},{INODES}")
    for place, target in held:
        kernel.read_only(_bind(f"/proc/self/fd/{place}", target))
        os.close(place)
    blank, void = f"{ROOT}/blank", f"{ROOT}/void"
    os.close(os.open(blank, os.O_CREAT | os.O_WRONLY, 0o444))
    os.mkdir(void, 0o555)
    _mask(config["masked_paths"], blank)
    for link, target in config["links"]:
        os.symlink(target, ROOT + link)
    # /dev/zero, mapped shared, is memory that is in no process: not where nothing else counts it.
    devices = [f"/dev/{name}" for name in DEVICES if config["groups"] or name != "zero"]
    config["own_devices"] = all(list(map(_device, devices))) and not config["devices"]
    for device in config["devices"]:
        _bind_device(device)
    kernel.mount("proc", f"{ROOT}/proc", "proc", safe | kernel.NO_EXEC)
    _cover_counters(blank, void)
    os.unlink(blank)
    os.rmdir(void)
    kernel.enter_root(ROOT, "old")
    kernel.mount("none", "/", "", kernel.REMOUNT | kernel.BIND | kernel.READ_ONLY | safe)
    kernel.mount("none", "/dev", "", kernel.REMOUNT | kernel.BIND | kernel.READ_ONLY | kernel.NO_SUID | kernel.NO_EXEC)


def close_proc() -> None:
    """Nothing below /proc can be written to: clear_refs would change flags of pages that every box is shown."""
    kernel.read_only("/proc")


def _cover_counters(blank: str, void: str) -> None:
    """Empty files and folders over everything of /proc that counts for the whole machine, and zeros over /proc/stat.

    Many programs read the number of cores from that; the init has it open since before.
    """
    proc = f"{ROOT}/proc"
    names = [name for name in os.listdir(proc) if not name.isdigit() and name not in SHOWN_OF_PROC]
    for name in (*names, *(f"sys/{path}" for path in COUNTERS_OF_SYS)):
        place = f"{proc}/{name}"
        if os.path.lexists(place) and not os.path.islink(place):
            kernel.mount(void if os.path.isdir(place) else blank, place, "", kernel.BIND)
    zeros = f"{ROOT}/zeros"
    cores = ["cpu ", *(f"cpu{number}" for number in range(os.cpu_count() or 1))]
    text = "".join(f"{name} {' '.join('0' * 10)}\n" for name in cores) + "intr 0\nctxt 0\nprocesses 0\nsoftirq 0\n"
    _write(zeros, f"{text}btime {int(time.time() - time.clock_gettime(time.CLOCK_BOOTTIME))}\n")
    os.chmod(zeros, 0o444)
    kernel.mount(zeros, f"{proc}/stat", "", kernel.BIND)
    os.unlink(zeros)


def _device(path: str) -> bool:
    """A device file of the box's own, where we may make one; else the machine's. Whether it is the box's own.

    On a file that all boxes share and may write to, record locks of one are felt by the others.
    """
    state, target = os.stat(path), ROOT + path
    try:
        os.mknod(target, state.st_mode, state.st_rdev)
        os.chmod(target, stat.S_IMODE(state.st_mode))
        os.close(os.open(target, os.O_RDONLY))
        return True
    except OSError:  # not as an ordinary user, nor where devices are kept from us
        with contextlib.suppress(FileNotFoundError):
            os.unlink(target)
    _bind_device(path)
    return False


def _bind_device(path: str) -> None:
    """The machine's device file: it can be written to, but its times cannot be set."""
    kernel.mount("none", _bind(path, path), "", kernel.REMOUNT | kernel.BIND | kernel.READ_ONLY | kernel.NO_SUID)


def _bind(source: str, target: str) -> str:
    target = ROOT + target
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY))
    kernel.mount(source, target, "", kernel.BIND | kernel.RECURSIVE)
    return target


def _mask(places: list[str], blank: str) -> None:
    """Cover what must not be read: a folder by an empty one, a file by an empty one. The script may not uncover it."""
    flags = kernel.READ_ONLY | kernel.NO_SUID | kernel.NO_DEV | kernel.NO_EXEC
    for place in places:
        target = ROOT + place
        if os.path.isdir(target):
            kernel.mount("tmpfs", target, "tmpfs", flags, "size=4k,nr_inodes=2,mode=555")
        elif os.path.exists(target):
            kernel.mount(blank, target, "", kernel.BIND)
            kernel.read_only(target)


def _loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
        fcntl.ioctl(device, 0x8914, struct.pack("16sh14x", b"lo", 0x1 | 0x40))


def _small_buffers() -> None:
    """TCP's buffers grow by themselves, up to ten megabytes a socket, and groups of version 1 do not count them."""
    for name in ("tcp_rmem", "tcp_wmem"):
        with contextlib.suppress(OSError):
            _write(f"/proc/sys/net/ipv4/{name}", "4096 65536 212992")


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
