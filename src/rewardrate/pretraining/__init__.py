"""Models from our own corpus: programs that write training text, and the recipe that learns from it."""
