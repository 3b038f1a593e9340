"""From a store to typed results: runs, grids, protocols, frames."""
