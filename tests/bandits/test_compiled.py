"""Compiling: one decorator, and no stale machine code."""

import os
import subprocess
import sys

from rewardrate.bandits.compiled import drop_stale_code, is_compiled, jit, jit_fresh, plain


def twice(x):
    return 2 * x


def test_a_compiled_function_computes_the_same_and_keeps_its_source():
    compiled = jit_fresh(twice)
    assert compiled(21) == 42
    assert is_compiled(compiled)
    assert not is_compiled(twice)
    assert plain(compiled) is twice
    assert plain(twice) is twice
    assert jit(twice)(4) == 8


def test_machine_code_older_than_any_source_is_dropped(tmp_path):
    cache = tmp_path / "__pycache__"
    cache.mkdir()
    for name, stamp in (("old.nbi", 100), ("old.1.nbc", 100), ("new.nbi", 300), ("other.pyc", 100)):
        (cache / name).write_text("")
        os.utime(cache / name, (stamp, stamp))
    (tmp_path / "a.py").write_text("")
    os.utime(tmp_path / "a.py", (200, 200))
    drop_stale_code(tmp_path)
    assert sorted(path.name for path in cache.iterdir()) == ["new.nbi", "other.pyc"]


def test_without_numba_the_error_names_the_extra():
    code = "import sys; sys.modules['numba'] = None\nimport rewardrate.bandits"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "rewardrate[bandit]" in done.stderr
