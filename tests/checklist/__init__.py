"""The pre-production checklist."""
