"""Examples: each runs to its end, and does what its page says."""
