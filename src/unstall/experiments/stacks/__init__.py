"""The real software of a report on this machine's CPU: environments, bridges, drivers.

A scenario is a replica; a stack is the thing itself, at the versions that a report names.

* :mod:`~unstall.experiments.stacks.recipe` which stacks there are, and what each installs
* :mod:`~unstall.experiments.stacks.environment` builds a stack's own environment, step by step
* :mod:`~unstall.experiments.stacks.levels` what of it runs: the whole, or the part that fails
* :mod:`~unstall.experiments.stacks.drive` one run of it, as of a user's own launch script
* :mod:`~unstall.experiments.stacks.sessions` ``--stack`` of ``reproduce`` and ``confirm``
* ``inside/`` files that are run by the environment's Python, not by ours: they import nothing of
  this package
* ``data/`` one TOML file a stack, with every version pinned
"""
