"""What is run: configuration, grids, specs, what a sweep expands to and is charged, and where runs are stored."""
