"""Planning: from lengths and costs to a schedule."""
