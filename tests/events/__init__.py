"""The event stream, its readers, and what is made of it: logs, reports, health."""
