"""One file per verb: parse, call, print. No other room imports it."""
