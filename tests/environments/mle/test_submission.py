import math
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fuzz import fuzz
from rewardrate.environments.mle.submission import Form, SubmissionRefused, form_of, read

FORM = Form(("id", "a", "b"), ("r1", "r2", "r3"), frozenset({"a", "b"}))
GOOD = b"id,a,b\nr1,1,2\nr2,3,4\nr3,5,6\n"


def test_a_good_submission_is_read():
    assert read(GOOD, FORM) == {"id": ["r1", "r2", "r3"], "a": [1.0, 3.0, 5.0], "b": [2.0, 4.0, 6.0]}


def test_rows_and_columns_may_stand_in_any_order():
    assert read(b"b,id,a\n6,r3,5\n2,r1,1\n4,r2,3\n", FORM) == read(GOOD, FORM)


def test_windows_line_ends_a_byte_order_mark_quotes_and_blank_lines_do_no_harm():
    assert read(b'\xef\xbb\xbf"id",a,b\r\nr1,1,2\r\n\r\nr2, 3 ,4\r\nr3,5,"6"\r\n', FORM) == read(GOOD, FORM)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "empty"),
        (b" \n\t", "empty"),
        (b"id,a,b\n", "0 rows; the test set has 3"),
        (b"id,a,b\nr1,1,2\n", "1 rows; the test set has 3"),
        (GOOD + b"r4,1,2\n", "more rows than the 3"),
        (b"id,a\nr1,1\nr2,2\nr3,3\n", "column 'b' is missing"),
        (b"id,a,b,c\nr1,1,2,3\n", "column 'c' does not belong"),
        (b",id,a,b\n0,r1,1,2\n", "use index=False"),
        (b"Unnamed: 0,id,a,b\n0,r1,1,2\n", "use index=False"),
        (b"id,a,b,a\nr1,1,2,3\n", "stands twice"),
        (b"id,a,b\nr1,1,2\nr2,3\nr3,5,6\n", "line 3 has 2 values"),
        (b"id,a,b\nr1,1,2\nr1,3,4\nr3,5,6\n", "id 'r1' stands twice"),
        (b"id,a,b\nr1,1,2\nr9,3,4\nr3,5,6\n", "id 'r9' is not in the test set"),
        (b"id,a,b\nr1,1,2\nr2,,4\nr3,5,6\n", "missing value"),
        (b"id,a,b\nr1,1,2\nr2,NaN,4\nr3,5,6\n", "missing value"),
        (b"id,a,b\nr1,1,2\nr2,-inf,4\nr3,5,6\n", "infinite"),
        (b"id,a,b\nr1,1,2\nr2,1e999,4\nr3,5,6\n", "infinite"),
        (b"id,a,b\nr1,1,2\nr2,cat,4\nr3,5,6\n", "must hold numbers; row 'r2' has 'cat'"),
        (b"id,a,b\nr1,1,2\nr2,1_0,4\nr3,5,6\n", "must hold numbers"),
        (b"id,a,b\nr1,1,2\nr2,0x1F,4\nr3,5,6\n", "must hold numbers"),
        ("id,a,b\nr1,1,2\nr2,٣,4\nr3,5,6\n".encode(), "must hold numbers"),
        (b"\x80\x04\x95\x00\x00", "NUL bytes"),
        (b"\xff\xfeid,a,b", "not UTF-8"),
        (b'id,a,b\nr1,1,2\nr2,"3,4\nr3,5,6\n', "not valid CSV"),
        (b"id,a,b\nr1," + b"1" * 5000 + b",2\n", "more than 4,096 characters"),
        (b"x" * 200_000, "bytes; at most"),
    ],
)
def test_every_defect_has_its_own_message(data, why):
    with pytest.raises(SubmissionRefused, match=why.replace("(", r"\(")):
        read(data, FORM)


def test_the_form_tells_numbers_from_words():
    form = form_of(b"id,label,score\na,cat,0.5\nb,dog,1\n")
    assert form.columns == ("id", "label", "score")
    assert form.ids == ("a", "b")
    assert form.numeric == {"score"}
    assert read(b"id,label,score\nb,cow,2\na, hen ,1e-3\n", form)["label"] == ["hen", "cow"]


def test_a_blank_word_is_a_missing_value():
    with pytest.raises(SubmissionRefused, match="column 'label' has a missing value"):
        read(b"id,label\na, \n", form_of(b"id,label\na,cat\n"))


CELL = st.one_of(
    st.sampled_from(
        ["r1", "r2", "r3", "id", "a", "b", "1", "-2.5e3", "nan", "", '"', "inf", "1e400", "\x00", "é", "1 2"]
    ),
    st.text(max_size=6),
)
TABLE = st.lists(st.lists(CELL, max_size=4), max_size=5).map(lambda rows: "\n".join(",".join(row) for row in rows))
HOSTILE = st.one_of(
    st.binary(max_size=200),
    TABLE.map(lambda text: text.encode("utf-8", "surrogatepass")),
    TABLE.map(lambda text: b"id,a,b\n" + text.encode("utf-8", "surrogatepass")),
    st.tuples(st.integers(0, len(GOOD)), st.binary(max_size=3)).map(
        lambda cut: GOOD[: cut[0]] + cut[1] + GOOD[cut[0] :]
    ),
    st.tuples(st.integers(0, len(GOOD)), st.integers(0, len(GOOD))).map(lambda cut: GOOD[: cut[0]] + GOOD[cut[1] :]),
)


@fuzz(HOSTILE, examples=1_000, deep=10_000)
@example(GOOD)
def test_hostile_bytes_are_read_whole_or_refused_in_one_sentence(data):
    try:
        found = read(data, FORM)
    except SubmissionRefused as refused:
        assert str(refused)
        assert len(str(refused)) < 400
        assert "\n" not in str(refused)
        return
    assert list(found) == ["id", "a", "b"]
    assert [word.strip() for word in found["id"]] == ["r1", "r2", "r3"]
    assert all(isinstance(value, float) and math.isfinite(value) for name in "ab" for value in found[name])


@settings(max_examples=300, deadline=None)
@given(st.permutations(range(3)), st.lists(st.floats(-1e300, 1e300), min_size=6, max_size=6))
def test_what_was_written_is_what_is_read(order, values):
    rows = [(f"r{n + 1}", values[2 * n], values[2 * n + 1]) for n in range(3)]
    text = "id,a,b\n" + "\n".join(",".join(map(repr, rows[n])).replace("'", "") for n in order)
    found = read(text.encode(), FORM)
    assert found["a"] == values[::2]
    assert found["b"] == values[1::2]


@pytest.mark.parametrize(
    "header",
    [
        ",".join(f"c{n}" for n in range(60_000)),
        ",".join(f"c{n % 30_000}" for n in range(60_000)),
        ",".join(["id", "p", *(f"c{n}" for n in range(60_000))]),
    ],
    ids=["other", "twice", "extra"],
)
def test_a_header_of_many_columns_takes_no_longer_than_its_length(header):
    form = Form(("id", "p"), tuple(map(str, range(4_000))), frozenset(("p",)))
    start = time.process_time()
    with pytest.raises(SubmissionRefused, match="column"):
        read(f"{header}\n1,2\n".encode(), form)
    assert time.process_time() - start < 10, "compared with one another the names take 40 s; one by one, a tenth"


def test_a_table_of_many_columns_is_read_in_one_pass():
    names = tuple(f"c{n}" for n in range(20_000))
    form = Form(("id", *names), ("a", "b"), frozenset(names))
    row = ",".join(["1"] * len(names))
    start = time.process_time()
    found = read(f"{','.join((*reversed(names), 'id'))}\n{row},b\n{row},a\n".encode(), form)
    assert found["c7"] == [1.0, 1.0]
    assert time.process_time() - start < 8
