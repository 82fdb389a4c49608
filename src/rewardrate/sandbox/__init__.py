"""Run one untrusted script under limits, time it, say what happened."""
