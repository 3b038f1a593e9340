"""The one exception that is the user's to mend; the command line prints it as one line and exits with 2."""


class UserError(Exception):
    """Say what is wrong, the value found, what was expected and what to do, in one line."""


class JobsFailed(Exception):
    """Some configurations of a sweep could not be done; the others are. The command line exits with 1."""
