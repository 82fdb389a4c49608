"""Texts read from the syntax."""

import ast

import pytest

from rewardrate.environments.speedrun.texts import UNKNOWN, bindings, text_of


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("'a' + 'b'", "ab"),
        ("f'a{1}b'", "a1b"),
        ("f'a{x}b'", "a?b"),
        ("f'a{1:06d}b'", "a?b"),
        ("'a%06d.pt' % step", "a?.pt"),
        ("'a{}.pt'.format(step)", "a?.pt"),
        ("os.path.join('a', name)", "a/?"),
        ("Path('a') / 'b.pt'", "a/b.pt"),
        ("FOLDER + '/b.pt'", "runs/b.pt"),
        ("b'a'", "a"),
        ("a / b", "?"),
        ("f(x)", "?"),
        ("str(Path('x'))", "x"),
        ("TWICE + 'b'", "?b"),
    ],
)
def test_the_text_of_an_expression(expression, text):
    known = bindings(ast.parse("FOLDER = 'runs'\nTWICE = 'a'\nTWICE = 'b'"))
    assert text_of(ast.parse(expression, mode="eval").body, known).replace(UNKNOWN, "?") == text


def test_a_name_that_means_itself_ends():
    known = {"a": ast.parse("b", mode="eval").body, "b": ast.parse("a + a", mode="eval").body}
    assert set(text_of(known["a"], known)) == {UNKNOWN}
