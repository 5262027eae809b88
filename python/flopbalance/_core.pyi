"""The compiled core; private."""
