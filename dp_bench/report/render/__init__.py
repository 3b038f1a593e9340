"""A report's tables, figures and page as files."""
