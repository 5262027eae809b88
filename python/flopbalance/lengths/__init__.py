"""Lengths: tokens of every sample, from files or made up."""
