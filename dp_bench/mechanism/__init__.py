"""The only code that touches private examples: random generators, sampling, clipped sums, noise."""
