"""One Hypothesis profile for all tests: the same examples on every machine, no clock."""

from hypothesis import settings

settings.register_profile("flopbalance", derandomize=True, deadline=None, max_examples=200)
settings.load_profile("flopbalance")
