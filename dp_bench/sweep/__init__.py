"""Many runs: the ledger, the launch, the live view."""
