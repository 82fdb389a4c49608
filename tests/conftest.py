"""Shared by all tests: hypothesis draws the same examples every time, so a red run can be repeated."""

from hypothesis import settings

settings.register_profile("house", derandomize=True, deadline=None, max_examples=100)
settings.load_profile("house")
