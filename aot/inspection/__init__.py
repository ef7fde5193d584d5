"""Looking at what was built: instruction statistics of a code object and summaries of a cache."""
