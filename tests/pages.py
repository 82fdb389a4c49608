"""Which pages of a file are in memory, and how to have none there: for tests of what a box leaves in the page cache."""

import ctypes
import os


def on_disk(path, size):
    """Write a file of random bytes and have none of it in memory."""
    with path.open("wb") as file:
        for start in range(0, size, 1 << 20):
            file.write(os.urandom(min(1 << 20, size - start)))
        file.flush()
        os.fsync(file.fileno())
    evict(path)


def evict(path):
    """Have nothing of a file in memory. Pages that are just being read cannot be dropped, so all are read first."""
    path.read_bytes()
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def resident(path):
    """Share of a file's pages that are in memory. Asking changes nothing, unlike a read without waiting."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    size = path.stat().st_size
    with path.open("rb") as file:
        place = libc.mmap(None, ctypes.c_size_t(size), 1, 1, file.fileno(), ctypes.c_long(0))
    pages = ctypes.create_string_buffer(-(-size // 4096))
    assert libc.mincore(ctypes.c_void_p(place), ctypes.c_size_t(size), pages) == 0
    libc.munmap(ctypes.c_void_p(place), ctypes.c_size_t(size))
    return sum(page & 1 for page in pages.raw) / len(pages)
