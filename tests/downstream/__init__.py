"""The armour against a real downstream: HTTP over loopback sockets, a real client, real and short times.

Nothing here asserts how long something took. Tests are driven by what the other side saw and by the tree's events.
"""
