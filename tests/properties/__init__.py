"""Properties: hypothesis looks for the order of events that breaks a promise."""
