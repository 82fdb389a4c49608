"""The NanoGPT race: referee, implementer, judge, seeds."""
