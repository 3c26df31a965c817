"""An outbox relay: orders leave a database by HTTP, each is applied once, whatever fails on the way.

Start reading at `shop.py`, which declares the tree; `workers.py` and `receiver.py` are what it runs.
"""
