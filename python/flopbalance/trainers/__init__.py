"""Trainers: the names, options and arguments of training code."""
