"""Which names a program binds and needs, and whether it writes: case by case, and against Python itself."""

import ast
import builtins
import symtable

import pytest
from hypothesis import strategies as st

from fuzz import fuzz
from rewardrate.environments.mle.names import Names, names_of, writes


def names(code):
    return names_of(ast.parse(code))


@pytest.mark.parametrize(
    ("code", "bound", "missing"),
    [
        ("x = y", "x", "y"),
        ("x = x", "x", "x"),
        ("x = 1\nx = x + 1", "x", ""),
        ("x += 1", "x", "x"),
        ("x[0] += 1", "", "x"),
        ("x: int", "", ""),
        ("x: y = z", "x", "y z"),
        ("import a.b as c, d.e", "c d", ""),
        ("from a import b as c, d", "c d", ""),
        ("for i, (j, *k) in enumerate(x): i, j, k", "i j k", "x"),
        ("for i in i: pass", "i", "i"),
        ("with open('f') as handle: handle", "handle", ""),
        ("try: 1\nexcept ValueError as error: error", "error", ""),
        ("match x:\n case [a, {'k': b, **c}, *d] if e: a\n case str() as f: f", "a b c d f", "x e"),
        ("(a := b)", "a", "b"),
        ("[a for a in b if c]", "", "b c"),
        ("[(a := c) for c in b]", "a", "b"),
        ("[[(a := c) for c in d] for d in b]", "a", "b"),
        ("{k: v for k, v in d.items()}", "", "d"),
        ("[f(a) for a in b for f in a.x]", "", "b"),
        ("lambda a, *b, c=d, **e: (a, b, c, e, f)", "", "d f"),
        ("def f(p, /, q: t, *r, s=u, **v) -> w: return p, q, r, s, v, x", "f", "t u w x"),
        ("def f(): return g()\ndef g(): return 1", "f g", ""),
        ("def f(): return f()", "f", ""),
        ("def f():\n global a\n a = 1", "f a", ""),
        ("def f():\n def g():\n  global a\n  a = 1", "f a", ""),
        ("def f():\n global a\n return a", "f", "a"),
        ("class A:\n def f(self):\n  global a\n  a = 1", "A a", ""),
        ("def f():\n a = 1\n def g():\n  nonlocal a\n  a = 2\n return g", "f", ""),
        ("class A(B, metaclass=C):\n x = 1\n y = x\n def f(self): return A, x", "A", "B C x"),
        ("@d\nclass A: pass\n@e(f)\ndef g(): pass", "A g", "d e f"),
        ("async def f():\n async with a as b: b\n async for c in b: await c", "f", "a"),
        ("del x", "", "x"),
        ("print(__file__, __name__, len)", "", ""),
        ("x.y = z", "", "x z"),
        ("f'{a!r:{b}}'", "", "a b"),
    ],
)
def test_names_are_bound_and_needed_as_python_does(code, bound, missing):
    found = names(code)
    assert found.bound == set(bound.split())
    assert found.missing() == set(missing.split())


def test_a_name_needed_later_may_be_bound_below():
    assert names("def f(): return x\nx = 1\nf()").missing() == set()
    assert names("f = x\nx = 1").missing() == {"x"}


def test_a_star_import_is_said():
    assert names("from a import *").star
    assert not names("from a import b").star


@pytest.mark.parametrize(
    "code",
    [
        "x.to_csv('f')",
        "open('f', 'w')",
        "open('f', mode='a').close()",
        "[w.writerow(r) for r in x]",
        "if x:\n  p.write_text('')",
        "numpy.savetxt('f', x)",
    ],
)
def test_code_that_writes_a_file_at_once_is_known(code):
    assert names(code).writes
    assert names(code).calls
    assert writes(ast.parse(code))
    inside = names("def f():\n" + "".join(f"    {line}\n" for line in code.splitlines()))
    assert (inside.writes, inside.calls, inside.functions[0].writes) == (False, False, True)


@pytest.mark.parametrize(
    "code", ["open('f')", "open('f', 'r')", "open('f', mode='rb').read()", "x.read_csv('f')", "x = 1"]
)
def test_code_that_only_reads_writes_nothing(code):
    assert not names(code).writes
    assert not writes(ast.parse(code))


def test_functions_say_what_they_write_and_what_they_need():
    found = names("def f(a):\n def g(): a.to_csv(b)\n return g\nclass A:\n def m(self): return c\nd = lambda: e")
    rows = [(each.name, each.writes, each.needs) for each in found.functions]
    assert rows == [("f", True, {"b"}), ("A", False, {"c"}), ("", False, {"e"})]


def test_a_program_that_is_nested_too_deeply_to_follow_has_no_names():
    deep = ast.parse("a = b")
    for _ in range(2_000):
        deep = ast.Module([ast.If(ast.Name("c", ast.Load()), [deep], [])], [])
    assert vars(names_of(deep)) == vars(Names())


# ---------------------------------------------------------------- against symtable

PIECES = (
    "a = b\n",
    "b = [c for c in a if d]\n",
    "def f(c, d=a):\n    global b\n    b = c\n    return e\n",
    "def g(a):\n    def h(): return a, b, c\n    return h\n",
    "class A:\n    c = 1\n    def m(self, d): return c, d, a\n",
    "e = lambda a, b=c: (a, b, d)\n",
    "import c.x, d as y\n",
    "for d in a: e = d\n",
    "with a as (b, c): d\n",
    "try: a\nexcept b as c: d\n",
    "x = {a: b for a, b in c for d in b}\n",
    "def k():\n    a = 1\n    class B(a):\n        b = c\n    return [a for _ in B]\n",
)


def by_symtable(code):
    """Names that a module binds, and global names that it or its functions read: from the interpreter itself."""
    top = symtable.symtable(code, "<test>", "exec")
    bound, read = set(), set()

    def walk(table, outermost):
        for symbol in table.get_symbols():
            outside = outermost or symbol.is_global()
            if outside and (symbol.is_assigned() or symbol.is_imported()):
                bound.add(symbol.get_name())
            if outside and symbol.is_referenced():
                read.add(symbol.get_name())
        for child in table.get_children():
            if outermost or child.get_type() != "module":
                walk(child, False)

    walk(top, True)
    return bound, read - set(dir(builtins))


@fuzz(st.lists(st.sampled_from(PIECES), max_size=6), examples=300, deep=10_000)
def test_the_interpreter_finds_the_same_names(pieces):
    code = "".join(pieces)
    found = names(code)
    bound, read = by_symtable(code)
    assert found.bound == bound
    assert found.missing() <= read
    assert read - bound <= found.missing()
