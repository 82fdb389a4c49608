"""System calls that Python lacks, on real files."""

import errno
import os
import sys

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux's system calls")


def test_a_file_is_opened_beneath_its_folder_and_never_through_a_link(tmp_path):
    from rewardrate.sandbox.box import kernel

    (tmp_path / "plain").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "plain")
    folder = os.open(tmp_path, os.O_PATH)
    try:
        file = kernel.open_beneath(folder, "plain", os.O_RDONLY)
        assert os.read(file, 10) == b"x"
        os.close(file)
        for name, number in (("link", errno.ELOOP), ("../" + tmp_path.name, errno.EXDEV), ("none", errno.ENOENT)):
            with pytest.raises(OSError, match=r"\w") as error:
                kernel.open_beneath(folder, name, os.O_RDONLY)
            assert error.value.errno == number
    finally:
        os.close(folder)


def test_a_refused_call_is_an_oserror_with_its_name():
    from rewardrate.sandbox.box import kernel

    with pytest.raises(OSError, match="mount nothing on /nowhere"):
        kernel.mount("nothing", "/nowhere", "tmpfs", 0)
    with pytest.raises(OSError, match="prctl"):
        kernel.prctl(99999)
