"""Jobs in SQLite: in a file, or in memory. Import from `actors.jobs`."""
