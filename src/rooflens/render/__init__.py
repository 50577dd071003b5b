"""Profile to table, chart, page, JSON and CSV. Knows no source and computes nothing of its own."""
