"""Run folders in; tables, figures and the page out. Trains nothing."""
