"""Random programs from a small grammar of shapes that are easy to get wrong."""

import random
import warnings


class Programs:
    """Random programs from a small grammar of shapes that are easy to get wrong."""

    SIMPLE = (
        *(
            "x = 1",
            "x = 5  # c",
            "y = '#'",
            'z = "a  # b"  # c',
            "pass",
            "x; y",
            "x = 1; y = 2  # c",
            "import os",
            "é = 'ü'",
        ),
        *(
            "from a import (b,  # c\n  d)",
            "f'{x}#{y!r}'",
            'f"""{x}\n  # in\n"""',
            "u = '''a  \n\n# s\n'''",
            "v = 1 + \\\n  2",
        ),
        *(
            "w = [1,\n\n  # c\n\t2,   \n]  # c",
            "n = 'a' \\\n  'b'  # c",
            "t = x if y else z   ",
            "q = lambda: x",
            "a: int = 3",
        ),
        *(
            "x = 1 \\\n# c\n",
            "M(x).fit(y)",
            "df.to_csv('s.csv')",
            "p = {'a': 1, **x}",
            "'bare'",
            "r'''raw\\\n'''",
            "global g",
        ),
        *(
            "s = '\\\n # x'",
            "b'#'",
            "x = (yield_)",
            "print('''\n\n''', end='')",
            "'''a''' '''b'''",
            "x = 1 # type: int",
            "# ... 3 lines",
        ),
    )
    HEADS = (
        *(
            "if x:",
            "for i in x:  # c",
            "while x:",
            "with x as y:",
            "def f(a, *b, c=1, **d):",
            "async def g():",
            "class A(B):",
        ),
        *("@d  # c\n{}def h():", "@d\n{}# c\n\n{}class C:", "try:", "def k(\n  a,  # c\n  b,\n):", "match x:"),
    )
    BETWEEN = ("", "", "", "\n", "# c\n", "{}# c\n", "   \n", "\t# é\n", "\x0c\n", "{}\n")
    DOCSTRINGS = ("", "", "'doc'", '"""a\n  # b\n\n"""  # c', "'a'; x", "('a')", "'''a''' \\\n  'b'", "'a'\n{}'b'")

    def __init__(self, seed):
        self.random = random.Random(seed)

    def block(self, indent, depth):
        pick = self.random.choice
        out = []
        if docstring := pick(self.DOCSTRINGS):
            out.append(indent + docstring.replace("{}", indent) + "\n")
        for _ in range(self.random.randrange(0 if docstring else 1, 5 - depth)):
            out.append(pick(self.BETWEEN).replace("{}", indent))
            if depth < 2 and self.random.random() < 0.35:
                out.append(self.compound(indent, depth))
            else:
                out.append(indent + pick(self.SIMPLE) + pick(("\n", "\n", "   \n")))
        return "".join(out)

    def compound(self, indent, depth):
        pick = self.random.choice
        head = pick(self.HEADS).replace("{}", indent)
        if head == "if x:" and self.random.random() < 0.4:
            return f"{indent}if True: pass  # x\n"
        inner = indent + pick(("    ", " ", "\t"))
        if head == "match x:":
            case = f"{inner}case [1, *_]:\n{self.block(inner + '  ', depth + 1)}{inner}  pass\n"
            return f"{indent}{head}\n{inner}# c\n{case}{inner}case _: pass\n"
        text = f"{indent}{head}\n{self.block(inner, depth + 1)}{inner}pass\n"
        if head == "try:":
            text += f"{indent}except E:  # c\n{self.block(inner, depth + 1)}{inner}pass\n"
        elif self.random.random() < 0.3 and head in ("if x:", "while x:"):
            text += f"{indent}# c\n{indent}else: x = 2  # c\n"
        return text

    def program(self):
        pick = self.random.choice
        start = pick(("", "", "#!/usr/bin/python\n", "# coding: utf-8\n", "# -*- coding: latin-1 -*-\n", "\n"))
        text = start + self.block("", 0)
        return pick((text, text, text.rstrip("\n"), text.replace("\n", "\r\n")))


def compiles(code):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(code, "<test>", "exec")
        except (SyntaxError, ValueError):
            return False
        return True
