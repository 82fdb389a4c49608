"""One file per verb: parse, call, print. No other package imports it."""
