"""Other libraries on the same workloads: one file a library, each run in a venv of its own."""
