"""One run: trained, checkpointed, resumed, finished."""
