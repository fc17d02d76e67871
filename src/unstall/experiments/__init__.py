"""Causes as real processes on this machine, and proof that a change removes them.

* :mod:`~unstall.experiments.scenario` what a scenario declares
* :mod:`~unstall.experiments.library` all scenarios, found by their presence in ``scenarios/``
* :mod:`~unstall.experiments.runner` one run: start, watch, gather evidence, stop
* :mod:`~unstall.experiments.closing` the diagnosis of a run's own evidence against what was done
* :mod:`~unstall.experiments.trials` A and B in turn until the answer is clear
* :mod:`~unstall.experiments.reproducing`, :mod:`~unstall.experiments.sessions` and
  :mod:`~unstall.experiments.scripts.session` one call of ``reproduce``, of ``confirm`` and of
  ``confirm --script``
* :mod:`~unstall.experiments.scripts` a user's own launch script: what is to be changed
  (``changes``), where that stands (``places``) and how it is written (``edit``, ``servers``), the
  copy that is run (``copies``), its run (``run``) and what its programs print into files
  (``outputs``)
* :mod:`~unstall.experiments.stacks` the real software of a report in the place of a replica

Only the processes of a scenario import torch; nothing in this package does at import.
"""
