"""What is written beside the page: the README's table and picture, the appendix, provenance."""
