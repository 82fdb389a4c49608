import re

from rewardrate.reports.style import BLUE, NAMES, pyplot
from rewardrate.reports.svg import inline


def drawn(name="one", title="0.12345 <b>&"):
    plt = pyplot()
    figure, axis = plt.subplots()
    axis.plot([1, 2], [3, 4], color=BLUE, label="line")
    axis.fill_between([1, 2], [3, 3], [4, 4], color="#123456")
    axis.set_title(title)
    axis.legend()
    text = inline(figure, name)
    plt.close(figure)
    return text


def test_known_colours_are_variables_of_the_page_and_others_stay():
    text = drawn()
    assert f"var(--{NAMES[BLUE]})" in text
    assert BLUE.lower() not in text.lower()
    assert "#123456" in text
    assert "var(--ink)" in text


def test_nothing_in_it_needs_permission_to_style_and_words_stay_words():
    text = drawn()
    assert text.startswith("<svg viewBox=")
    assert "style=" not in text
    assert "<style" not in text
    assert "0.12345 &lt;b&gt;&amp;" in text


def test_ids_of_two_figures_never_meet_and_every_reference_is_met():
    one, two = drawn("one"), drawn("two")
    ids = [set(re.findall(r'id="([^"]+)"', text)) for text in (one, two)]
    assert not ids[0] & ids[1]
    assert set(re.findall(r"""(?:href="#|url\(#)([^")]+)""", one)) <= ids[0]


def test_the_ground_is_transparent():
    assert "#ffffff" not in drawn().lower()
