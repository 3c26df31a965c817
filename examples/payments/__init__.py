"""A payment worker: thousands of orders from a CSV, each charged once at a provider that fails in every way, and a proof.

Start reading at `worker.py`, which is what you would write yourself; `tree.py` declares what runs in a worker's process and `demo.py`
what runs around it.
"""
