"""Causes as real processes on this machine, and proof that a change removes them.

* :mod:`~unstall.experiments.scenario` what a scenario declares
* :mod:`~unstall.experiments.library` all scenarios, found by their presence in ``scenarios/``
* :mod:`~unstall.experiments.runner` one run: start, watch, gather evidence, stop
* :mod:`~unstall.experiments.closing` the diagnosis of a run's own evidence against what was done
* :mod:`~unstall.experiments.trials` A and B in turn until the answer is clear
* :mod:`~unstall.experiments.script` the same for a user's own launch script

Only the processes of a scenario import torch; nothing in this package does at import.
"""
