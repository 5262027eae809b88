"""Benchmarks of a debug build are refused."""

from works import refuse_debug_build

refuse_debug_build()
