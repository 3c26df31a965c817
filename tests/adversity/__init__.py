"""Adversity: what goes wrong in ways that nobody plans for, each with a test of its own."""
