"""Readings of the paper that a report compares: the sound one, what the paper probably did, and ablations of Online."""

# A reading of the paper: the choices, as a run's variant names them, that depart from the sound protocol.
Reading = frozenset[str]

SOUND: Reading = frozenset()
# The accountant for batches of fixed size (docs/fidelity.md has the evidence). Never private.
PROBABLE: Reading = frozenset({"privacy.accountant=rdp_wor"})

# What Online does without its two updates: whether the learned threshold or the learned rate makes the difference.
FROZEN_THRESHOLD: Reading = frozenset({"strategy.clip_lr=0"})
FROZEN_RATE: Reading = frozenset({"strategy.lr_lr=0"})
FROZEN: Reading = FROZEN_THRESHOLD | FROZEN_RATE
