import base64
import hashlib
import json
import re

from rewardrate.reports.document import as_json, document, escape, figure, fold, policy, program, table, tile

PROBE = """</script><script>alert(1)</script>"'&"""


def test_the_policy_allows_the_pages_own_script_by_its_digest_and_no_other():
    text = document("title", "<p>body</p>")
    inside = re.search(r"<script>(.*)</script>", text, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy()
    assert policy() in text
    assert "connect-src 'self'" in policy(live=True)
    style = re.search(r"<style>(.*)</style>", text, re.DOTALL)[1]
    assert base64.b64encode(hashlib.sha256(style.encode()).digest()).decode() in policy()


def test_texts_from_outside_cannot_become_markup():
    made = [
        escape(PROBE),
        table([PROBE], [[PROBE]]),
        figure("<svg></svg>", PROBE, PROBE, PROBE, choice=PROBE),
        tile(PROBE, PROBE),
        fold(PROBE, ""),
        document(PROBE, "", sections={"a": PROBE}, data={"x": PROBE}).partition("<script>")[0],
    ]
    for text in made:
        assert "<script>alert" not in text
        assert "alert(1)" in text
    assert '"' not in escape(PROBE)
    assert "'" not in escape(PROBE)


def test_data_cannot_end_the_element_they_stand_in_and_come_out_again():
    data = {"text": PROBE + "<!--", "number": 1.5}
    assert "<" not in as_json(data)
    assert json.loads(as_json(data)) == data


def test_the_script_never_writes_markup_nor_evaluates_text():
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "setAttribute('style'",
    ):
        assert word not in program()


def test_numbers_stand_on_the_right():
    assert '<td class="n">2</td>' in table(["a", "b"], [["1", "2"]], right=[1])
