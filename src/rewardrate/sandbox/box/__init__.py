"""The trusted side of the box: an init that sets it up, starts the script, times it, kills it and reports.

Standard library only, imported by a fresh `python -ISB`. Nothing here reads what the script prints, and nothing the
script can write is opened by name after it has run.
"""
