"""Reports: what a schedule costs, why ranks wait, and pictures of it."""
