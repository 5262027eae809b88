"""Schedules: which rank runs which samples, in which micro-batches."""
