"""Readings of the paper that a report compares: the sound one, what the paper probably did, ablations of Online.

And the cells by which a reading was chosen.
"""

# A reading of the paper: the choices, as a run's variant names them, that depart from the sound protocol.
Reading = frozenset[str]

SOUND: Reading = frozenset()
# The accountant for batches of fixed size (docs/fidelity.md has the evidence). Never private.
PROBABLE: Reading = frozenset({"privacy.accountant=rdp_wor"})

# What Online does without its two updates: whether the learned threshold or the learned rate makes the difference.
FROZEN_THRESHOLD: Reading = frozenset({"strategy.clip_lr=0"})
FROZEN_RATE: Reading = frozenset({"strategy.lr_lr=0"})
FROZEN: Reading = FROZEN_THRESHOLD | FROZEN_RATE

# (data set, strategy, k, epsilon) of the cells by which momentum 0.9 was chosen over the text's "vanilla SGD"
# (docs/fidelity.md): that these agree with the paper is partly the choice's doing.
TUNED = {
    ("mnist", "online", 5, 3.0),
    ("ag_news", "online", 5, 3.0),
    *(
        ("ag_news", strategy, 5, epsilon)
        for strategy in ("fixed_threshold", "fixed_quantile")
        for epsilon in (3.0, 9.0)
    ),
}
