"""Public bug reports of other projects, retold as acceptance tests. `kit` is what they share."""
