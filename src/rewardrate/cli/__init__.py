"""One file per verb: parse, call, print. Imported by nobody."""
