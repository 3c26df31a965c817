"""The benchmarks: ours beside raw Trio, asyncio and other libraries, by CPU time.

`python -m tests.bench` runs them; they are no tests, and pytest collects none of this.
`plan.py` says what is measured and which figure is wanted.
"""
