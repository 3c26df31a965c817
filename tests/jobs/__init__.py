"""Jobs: engines by one contract, workers in virtual time, and processes that are killed."""
