"""The commands that read a store: report, status, show, repeat, reproduce."""
