"""``unstall run``: a command under guard. It sees a stall early, keeps the evidence, starts again.

``session`` makes attempts, each of which starts the command (``attempt``, ``job``), carries its
output on (``output``), times its progress (``pace``), looks at its processes when that fails to
come (``look``), gathers evidence (``keep``) and, before another attempt, finds the checkpoint to go
on from (``checkpoints``).
"""
