"""Shared by all tests: hypothesis draws the same examples every time, so a red run can be repeated."""

import pytest
from hypothesis import settings

settings.register_profile("house", derandomize=True, deadline=None, max_examples=100)
settings.load_profile("house")


@pytest.fixture
def chat():
    """Address of a chat model on loopback."""
    import chat_server

    with chat_server.serving() as url:
        yield url
