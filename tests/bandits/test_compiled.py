"""Compiling: one decorator, and no stale machine code."""

import os
import subprocess
import sys
from pathlib import Path

from rewardrate.bandits import compiled
from rewardrate.bandits.compiled import exact, is_compiled, jit, jit_fresh, plain, source_stamp


def twice(x):
    return 2 * x


def test_a_compiled_function_computes_the_same_and_keeps_its_source():
    fast = jit_fresh(twice)
    assert fast(21) == 42
    assert is_compiled(fast)
    assert not is_compiled(twice)
    assert plain(fast) is twice
    assert plain(twice) is twice
    assert jit(twice)(4) == 8


def test_the_cache_is_stamped_with_all_sources_of_the_room(tmp_path):
    (tmp_path / "a.py").write_text("")
    os.utime(tmp_path / "a.py", (200, 200))
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "b.py").write_text("x = 1")
    os.utime(tmp_path / "agents" / "b.py", (300, 300))
    assert source_stamp(tmp_path) == (300.0, 5)
    room = source_stamp(Path(compiled.__file__).parent)
    assert jit(twice)._cache._cache_file._source_stamp == room  # numba keeps the name, else edits would go unnoticed
    assert exact(twice)._cache._cache_file._source_stamp == room


def test_an_edit_of_a_function_that_was_inlined_is_noticed_by_the_next_process(tmp_path):
    package = tmp_path / "room"
    package.mkdir()
    source = Path(compiled.__file__).read_text()
    (package / "__init__.py").write_text("")
    (package / "compiled.py").write_text(source)
    outer = "from room.compiled import jit\nfrom room.inner import inner\n\n\n@jit\ndef outer():\n    return inner()\n"
    (package / "outer.py").write_text(outer)
    found = []
    for number in (1, 2):
        code = f"from room.compiled import jit\n\n\n@jit\ndef inner():\n    return {number}\n"
        (package / "inner.py").write_text(code)
        os.utime(package / "inner.py", (4e9 + number, 4e9 + number))  # newer than all, as an edit is; outer.py stays
        command = [sys.executable, "-c", "from room.outer import outer; print(outer())"]
        said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120).stdout
        found.append(int(said))
    assert found == [1, 2]


def test_without_numba_the_error_names_the_extra():
    code = "import sys; sys.modules['numba'] = None\nimport rewardrate.bandits"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "rewardrate[bandit]" in done.stderr
