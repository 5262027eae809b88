"""Models: what a description of a decoder says of its cost."""
