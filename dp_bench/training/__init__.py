"""One run: trained, checkpointed, resumed, finished."""

import os

# Large tensors in huge pages, where the system leaves that choice to programs (docs/performance.md). torch looks when
# it first allocates memory, so this must come before anything here imports it.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
