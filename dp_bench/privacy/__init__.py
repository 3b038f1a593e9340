"""What a release is, what it costs, and who pays for a search: queries, rounding, accountants, budgets. No torch."""
