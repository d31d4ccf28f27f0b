"""One script a tool and a part: each runs in the tool's own environment, in a process of its own.

Nothing here imports divulge but the drivers named after it.
"""
