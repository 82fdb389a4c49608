"""Tuning a SQLite database: indexes, settings and rewritten queries for a workload on real data."""
