"""From finished runs to tables, figures, the comparison with the paper and one page. It starts without torch."""
