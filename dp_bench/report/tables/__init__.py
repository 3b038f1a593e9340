"""The tables of a report, found by `dp_bench.report.contents`: any module here may add some."""
