"""Replies as language models write them."""

import pytest

from rewardrate.environments.mle.extraction import extract
from rewardrate.errors import InputError

SCRIPT = """import pandas as pd

train = pd.read_csv("train.csv")
submission = pd.DataFrame({"id": train["id"], "EAP": 0.5})
submission.to_csv("submission.csv", index=False)
"""
TICKS = "```"


def fenced(code, tag="python", marks=TICKS):
    return f"{marks}{tag}\n{code}{marks}\n"


# ---------------------------------------------------------------- one block


@pytest.mark.parametrize(
    "tag",
    [
        *("python", "py", "Python3", "python3.11", "{python}", "{.python .numberLines}", "", " python", "PYTHON"),
        *("python title=x", "python:train.py", "train.py", "ipython3", "tool_code"),
    ],
)
@pytest.mark.parametrize("marks", ["```", "~~~", "`````", "~~~~"])
def test_a_fenced_script_comes_back_exactly_whatever_the_fence(tag, marks):
    found = extract(f"I will use the mean.\n\n{fenced(SCRIPT, tag, marks)}\nThat is all.")
    assert (found.code, found.plan, found.problem) == (SCRIPT, "I will use the mean.", "")


def test_windows_line_ends_are_read_as_line_ends():
    assert extract(("Plan\n" + fenced(SCRIPT)).replace("\n", "\r\n")).code == SCRIPT


def test_the_indentation_of_a_list_item_is_removed_and_no_more():
    body = "".join(
        "   " + line if line.strip() else line for line in ("if True:\n    print(1)\n\nprint(2)\n").splitlines(True)
    )
    found = extract(f"1. Load:\n\n   ```python\n{body}   ```\n")
    assert found.code == "if True:\n    print(1)\n\nprint(2)\n"
    assert extract("- ```python\n  print(1)\n  ```\n").code == "print(1)\n"
    assert extract("\t```py\n\tprint(1)\n\t```\n").code == "print(1)\n"


def test_a_string_may_reach_further_left_than_its_indented_fence():
    assert extract('  ```python\n  x = """\nleft\n  """\n  ```\n').code == 'x = """\nleft\n"""\n'


def test_code_that_is_indented_inside_a_plain_fence_is_moved_to_the_margin():
    assert extract("```python\n    x = 1\n    print(x)\n```").code == "x = 1\nprint(x)\n"


def test_white_space_inside_the_script_is_never_touched():
    code = 'x = 1   \n\n\n\ttext = """a  \n   \n"""\n'.replace("\n\ttext", "\ntext")
    assert extract(fenced(code)).code == code


def test_a_closing_fence_has_at_least_as_many_marks():
    assert extract('````python\nx = """\n```\n"""\nprint(x)\n``````\n').code == 'x = """\n```\n"""\nprint(x)\n'


def test_a_fence_inside_a_longer_fence_is_text():
    assert extract(f"````text\n{fenced(SCRIPT)}````\n").code is None
    assert extract(f"~~~text\n{fenced(SCRIPT)}~~~\n").code is None


def test_a_reply_wrapped_whole_in_a_markdown_block_is_opened():
    assert extract(f"```markdown\n# Plan\nMeans.\n{fenced(SCRIPT)}```\n").code == SCRIPT


@pytest.mark.parametrize("quotes", ['"""', "'''"])
def test_fences_inside_a_docstring_do_not_cut_the_script(quotes):
    one = f"def f():\n    {quotes}Example:\n\n    ```\n    f()\n    ```\n    {quotes}\n    return 1\n\n\n"
    code = one + one.replace("f()", "g()") + "print(f())\n"
    found = extract(f"Plan.\n{fenced(code)}Done.\n```\nsome output\n```\n")
    assert (found.code, found.plan) == (code, "Plan.")


def test_a_fence_that_shares_its_line_with_text_is_found_when_there_is_no_other():
    assert extract(f"Here it is: ```python\n{SCRIPT}```").code == SCRIPT
    assert extract(f"```python\n{SCRIPT.rstrip()}```").code == SCRIPT
    assert extract(f"Wrap it in ```python\n\n{fenced(SCRIPT)}").code == SCRIPT


# ---------------------------------------------------------------- cut, unfenced, empty


def test_a_reply_cut_after_a_whole_statement_gives_what_is_there():
    assert extract(f"Plan\n```python\n{SCRIPT}").code == SCRIPT
    assert extract(f"Plan\n```python\n{SCRIPT.rstrip()}").code == SCRIPT


@pytest.mark.parametrize("end", ["x = (1,\n", "print('abc", "def f():\n", 'x = """never closed\n```\n'])
def test_a_reply_cut_inside_a_statement_has_no_code_and_says_that_it_was_cut(end):
    found = extract(f"Plan\n```python\nimport os\n{end}")
    assert found.code is None
    assert "cut" in found.problem or "unterminated" in found.problem
    assert "\n" not in found.problem


def test_a_reply_that_is_a_program_is_the_script():
    assert extract(SCRIPT).code == SCRIPT
    assert extract("\n\n" + SCRIPT + "\n\n").code == SCRIPT
    assert extract(" " + SCRIPT).code == SCRIPT
    with_fences = f'x = """\n{fenced("print(1)")}"""\nprint(x)\n'
    assert extract(with_fences).code == with_fences


@pytest.mark.parametrize(
    "text",
    [
        *("", "   \n", "Sorry", "id,EAP", "id,EAP\n1,0.5\n2,0.25", "Accuracy: 0.93", "'text'", "42", "[1, 2]"),
        *("pass", "a.b", "a < b", "# only a comment", "...", "raise awareness", "I cannot do that.", "not sure", "```"),
    ],
)
def test_text_that_compiles_by_chance_is_no_program(text):
    found = extract(text)
    assert found.code is None
    assert found.problem.endswith(".")
    assert extract(fenced(text + "\n")).code is None
    assert extract(fenced(text + "\n", "")).code is None


@pytest.mark.parametrize(
    "text",
    [
        "import os",
        "print(1)",
        "x = 1",
        "def f(): pass",
        "for i in x: i",
        "x: int = 1",
        "with a: b",
        "(y := 3)",
        "x += 1",
    ],
)
def test_one_statement_that_acts_is_a_program(text):
    assert extract(text).code == text + "\n"


def test_the_problem_of_code_that_does_not_compile_names_the_line():
    found = extract(fenced("import os\nprint 'x'\n"))
    assert found.code is None
    assert "line 2" in found.problem
    assert found.plan.startswith("```python")


def test_only_text_can_be_a_reply():
    with pytest.raises(InputError, match="reply"):
        extract(b"print(1)")


# ---------------------------------------------------------------- thoughts and echoes


@pytest.mark.parametrize("tag", ["think", "THINK", "thinking"])
def test_thoughts_are_dropped_with_the_drafts_in_them(tag):
    found = extract(
        f"<{tag}>\nDraft:\n{fenced(SCRIPT)}```python\nnever closed\n</{tag}>\n\nPlan.\n{fenced('print(1)' + chr(10))}"
    )
    assert (found.code, found.plan) == ("print(1)\n", "Plan.")


def test_a_thought_that_never_ends_gives_no_code():
    found = extract(f"<think>Let me try\n{fenced(SCRIPT)}")
    assert found.code is None
    assert "<think>" in found.problem


def test_a_thought_that_the_prompt_began_ends_where_it_says():
    assert extract(f"Draft:\n{fenced(SCRIPT)}\n</think>\n{fenced('print(1)' + chr(10))}").code == "print(1)\n"
    assert extract(f"Draft:\n```python\nopen\n</think>\n{fenced('print(1)' + chr(10))}").code == "print(1)\n"


def test_a_tag_inside_the_script_is_text():
    code = 'text = input().replace("<think>", "")\nprint(text)\n'
    assert extract(fenced(code)).code == code
    assert extract(code).code == code
    assert extract("No `<think>` here.\n" + fenced(code)).code == code


def test_an_empty_thought_and_an_echo_of_the_prompt_do_not_matter():
    echo = f"System: be brief.\nUser: improve\n{fenced(SCRIPT.replace('0.5', '0.1'))}\nAssistant: <think>\n\n</think>\n"
    assert extract(echo + fenced(SCRIPT)).code == SCRIPT
    speaking = 'print("Assistant: hello")\n'
    assert extract("Assistant: here\n" + fenced(speaking)).code == speaking


# ---------------------------------------------------------------- several blocks


@pytest.mark.parametrize("tag", ["bash", "csv", "json", "text", "output", "sh", "r", "sql", "diff", "console", "yaml"])
def test_blocks_of_other_languages_never_count(tag):
    for other in ("x = 1\n", "id,EAP\n", "pip install pandas\n", "import os\n"):
        assert extract(fenced(other, tag) + fenced(SCRIPT) + fenced(other, tag)).code == SCRIPT
        assert extract(fenced(other, tag)).code is None


@pytest.mark.parametrize(
    "other", ["id,EAP\n1,0.5\n", "pip install pandas\n", "ls\n", "Accuracy: 0.93\n", "train.csv\n", "$ python a.py\n"]
)
def test_untagged_blocks_that_are_no_programs_never_count(other):
    assert extract(fenced(other, "") + "then\n" + fenced(SCRIPT, "") + fenced(other, "")).code == SCRIPT


def test_a_header_of_a_table_is_not_put_before_the_script():
    assert extract("The file looks so:\n" + fenced("id,EAP\n", "") + fenced(SCRIPT)).code == SCRIPT


def test_the_last_complete_version_wins():
    better = SCRIPT.replace("0.5", "0.4")
    found = extract("First:\n" + fenced(SCRIPT) + "Better:\n" + fenced(better))
    assert found.code == better
    assert found.plan == "First:\n" + fenced(SCRIPT) + "Better:"


def test_a_script_in_parts_is_joined_in_order():
    parts = SCRIPT.splitlines(True)
    reply = "Imports\n" + fenced(parts[0]) + "Data\n" + fenced(parts[2]) + "Write\n" + fenced("".join(parts[3:]))
    found = extract(reply)
    assert found.code == parts[0] + parts[2] + "".join(parts[3:])
    assert found.plan == "Imports"


def test_a_part_that_changes_its_own_input_still_needs_the_part_before():
    load = "import pandas as pd\ntrain = pd.read_csv('train.csv')\n"
    clean = "train = train.fillna(0)\n"
    write = "train.to_csv('submission.csv')\n"
    assert extract(fenced(load) + fenced(clean) + fenced(write)).code == load + clean + write


def test_a_part_that_binds_nothing_but_acts_is_kept_between_the_others():
    load = "from sklearn.svm import SVC\nX = [[1]]\ny = [1]\nmodel = SVC()\n"
    fit = "model.fit(X, y)\n"
    write = "open('submission.csv', 'w').write(str(model.predict(X)))\n"
    assert extract(fenced(load) + fenced(fit) + fenced(write)).code == load + fit + write


def test_a_draft_before_a_script_in_parts_is_left_out():
    parts = "import csv\nrows = [1]\n", "csv.writer(open('submission.csv', 'w')).writerows(rows)\n"
    assert extract(fenced(SCRIPT) + fenced(parts[0]) + fenced(parts[1])).code == "".join(parts)


def test_functions_that_write_are_joined_with_the_call_that_starts_them():
    functions = "import pandas as pd\n\n\ndef main():\n    pd.DataFrame().to_csv('submission.csv')\n"
    call = "if __name__ == '__main__':\n    main()\n"
    assert extract(fenced(functions) + "Run:\n" + fenced(call)).code == functions + call
    assert extract(fenced(SCRIPT) + fenced(functions) + fenced(call)).code == functions + call


def test_excerpts_and_hints_after_the_script_are_left_out():
    lines = SCRIPT.splitlines(True)
    for hint in (
        lines[2],
        lines[-1],
        "params = {'depth': 8}\n",
        "print(submission.head())\n",
        "pd.options.display.width = 9\n",
    ):
        assert extract(fenced(SCRIPT) + "Note:\n" + fenced(hint)).code == SCRIPT


def test_an_unfinished_sketch_after_the_script_does_not_replace_it():
    sketch = "model = make_model(settings)\nmodel.table.to_csv('submission.csv')\n"
    assert extract(fenced(SCRIPT) + fenced(sketch)).code == SCRIPT
    assert extract(fenced(sketch)).code == sketch


def test_a_whole_script_stands_when_a_later_one_is_cut():
    assert extract(fenced(SCRIPT) + "Better:\n```python\nimport os\nprint(").code == SCRIPT


def test_a_fragment_does_not_stand_in_for_a_script_that_does_not_compile():
    found = extract(fenced("import pandas as pd\n") + fenced("x = = 1\n"))
    assert found.code is None
    assert "line 1" in found.problem
    assert extract(fenced("x = = 1\n") + fenced("print(2)\n")).code == "print(2)\n"


def test_toy_blocks_follow_the_same_rules():
    assert extract(fenced("x = 1\n") + fenced("print(x)\n")).code == "x = 1\nprint(x)\n"
    assert extract(fenced("print('draft')\n") + fenced("print('final')\n")).code == "print('final')\n"
    assert extract(fenced("print(1)\n") + fenced("print(1)\n")).code == "print(1)\n"


def test_names_bound_by_every_kind_of_statement_need_no_earlier_block():
    code = """from os import *
import a.b as c, d.e
for i, (j, *k) in enumerate([1]): i, j, k
with open("f") as handle: handle
try: 1
except ValueError as error: error
match [1, {"a": 2}]:
    case [first, {"a": second, **rest}]: first, second, rest
    case [*others]: others
    case str() as text: text
def f(p, /, q, *r, s=1, **t):
    global made
    made = p
    return p, q, r, s, t, later, __file__
later = lambda u: [u + v for v in range(3) if (w := v)]
class A(object):
    z = 1
    y = z
    def m(self): return A, later
async def g():
    async for n in x(): n
    async with x() as o: o
n: int = 1
n += 1
{k2: v2 for k2, v2 in {}.items()}; {e for e in ()}; (e for e in ())
print(d, c, f, A, g, made, n, i)
"""
    earlier = "\n".join(f"{name} = 0" for name in "abcdefgijkmnpqrstuvwz") + "\nx = range\n"
    assert extract(fenced(earlier) + fenced(code.replace("x()", "range()"))).code == code.replace("x()", "range()")
    assert extract(fenced(earlier) + fenced(code)).code == earlier + code


def test_parts_that_do_not_compile_together_are_not_joined():
    first, second = "x = 1\n", "from __future__ import annotations\nprint(x)\n"
    assert extract(fenced(first) + fenced(second)).code == second
