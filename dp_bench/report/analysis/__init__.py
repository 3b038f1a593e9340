"""What follows from results: verdicts, statistics, searches, totals."""
