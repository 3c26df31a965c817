"""The command line: one file a theme. It needs no extra; `serve` needs `[observer]` for its control socket."""
