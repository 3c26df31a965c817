"""Programs that show the library at work; each runs with `python -m examples.NAME`."""
