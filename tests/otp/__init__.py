"""Conformance with OTP's supervisor, case by case; the mapping is data in `cases.py`."""
