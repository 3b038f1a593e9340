"""The figures of a report as plain data, found by `dp_bench.report.contents`: any module here may add some."""
