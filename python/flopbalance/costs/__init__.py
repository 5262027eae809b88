"""Costs: what a sample of some length costs, counted or measured."""
