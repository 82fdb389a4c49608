"""The box's own world: namespaces, a root of read-only binds and sized memory file systems, loopback alone."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import socket
import struct
from typing import Any

from rewardrate.sandbox.box import kernel

ROOT = "/tmp"  # where the new root is put together; whatever the host has there is hidden by it
INODES = "nr_inodes=64k"
DEVICES = ("null", "zero", "full", "random", "urandom")


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
    _mask(config["masked_paths"])
    for link, target in config["links"]:
        os.symlink(target, ROOT + link)
    # /dev/zero, mapped shared, is memory that is in no process: not where nothing else counts it.
    devices = [f"/dev/{name}" for name in DEVICES if config["groups"] or name != "zero"]
    for device in [*devices, *config["devices"]]:
        _bind(device, device)
    kernel.mount("proc", f"{ROOT}/proc", "proc", safe | kernel.NO_EXEC)
    kernel.enter_root(ROOT, "old")
    kernel.mount("none", "/", "", kernel.REMOUNT | kernel.BIND | kernel.READ_ONLY | safe)


def close_proc() -> None:
    """Nothing below /proc can be written to: clear_refs would change flags of pages that every box is shown."""
    flags = kernel.REMOUNT | kernel.BIND | kernel.READ_ONLY | kernel.NO_SUID | kernel.NO_DEV | kernel.NO_EXEC
    kernel.mount("none", "/proc", "", flags)


def _bind(source: str, target: str) -> str:
    target = ROOT + target
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY))
    kernel.mount(source, target, "", kernel.BIND | kernel.RECURSIVE)
    return target


def _mask(places: list[str]) -> None:
    """Cover what must not be read: a folder by an empty one, a file by an empty one. The script may not uncover it."""
    blank = f"{ROOT}/blank"
    os.close(os.open(blank, os.O_CREAT | os.O_WRONLY, 0o444))
    flags = kernel.READ_ONLY | kernel.NO_SUID | kernel.NO_DEV | kernel.NO_EXEC
    for place in places:
        target = ROOT + place
        if os.path.isdir(target):
            kernel.mount("tmpfs", target, "tmpfs", flags, "size=4k,nr_inodes=2,mode=555")
        elif os.path.exists(target):
            kernel.mount(blank, target, "", kernel.BIND)
            kernel.read_only(target)
    os.unlink(blank)


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
