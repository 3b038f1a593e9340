"""Why a source of data was passed over."""


class Unavailable(Exception):
    """The source is not there (no network, no such tool); the next one is asked, and the reason is kept."""
