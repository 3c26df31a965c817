"""Jobs in PostgreSQL, for any number of machines. Import from `actors.jobs`."""
