"""How others do the same work, written for the benchmarks alone."""
