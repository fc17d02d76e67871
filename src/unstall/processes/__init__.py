"""Real processes: how they are started and ended whole, asked for their state, and followed.

What experiments and the guard of ``unstall run`` share.
"""
