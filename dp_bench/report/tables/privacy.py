"""What every grid spends, and all of them together: see `dp_bench.report.privacy_page`."""

from dp_bench.report import privacy_page
from dp_bench.report.analysis import store_totals
from dp_bench.report.contents import Part, shown

shown("Privacy", 0)(
    lambda results, accounts: Part("", [*privacy_page.WORDS], [], privacy_page.warnings(results, accounts))
)
shown("Privacy", 30, main_only=True)(store_totals.total_table)
shown("Privacy", 40)(privacy_page.ledger)
