import pytest

from rewardrate.reports.redaction import redacted, redacted_settings


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("see https://me:hunter2@host/x", "hunter2"),
        ("GET http://host/v1?api_key=abc123&n=1 failed", "abc123"),
        ("key sk-abcdefghijklmnop1234 refused", "sk-abcdefghijklmnop1234"),
        ("hf_abcdefghijklmnopqrst", "hf_abcdefghijklmnopqrst"),
        ("Authorization: Bearer abc.def.ghi", "abc.def.ghi"),
    ],
)
def test_passwords_and_keys_are_taken_out_of_a_message(text, secret):
    assert secret not in redacted(text)
    assert "(hidden)" in redacted(text)


@pytest.mark.parametrize(
    ("line", "secret"),
    [
        ('api_key = "abc"', "abc"),
        ("MY_TOKEN=abc", "abc"),
        ("password: abc", "abc"),
        ("'client_secret': 'abc'", "abc"),
        ('url = "https://me:abc@host?token=abc"', "abc"),
    ],
)
def test_settings_that_are_named_like_a_secret_lose_their_value(line, secret):
    assert secret not in redacted_settings(line)


@pytest.mark.parametrize(
    "line",
    ["new_tokens = 400", 'key_variable = "MY_KEY"', "monkey = 3", 'url = "http://127.0.0.1:8000/v1"', "seed = 1"],
)
def test_settings_that_are_no_secret_stay(line):
    assert redacted_settings(line) == line
