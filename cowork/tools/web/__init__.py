"""WebFetch and WebSearch: pages and search results as text."""
