"""The promises of treewarden, as tests."""
