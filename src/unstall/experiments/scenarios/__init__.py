"""One module per scenario: its declaration ``SCENARIO`` and its program ``main``.

``main(lab)`` is run in every process of the scenario with a :class:`unstall.experiments.child.Lab`.
A program does what real programs do and prints what they print; it never prints its cause.
"""
