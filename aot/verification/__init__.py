"""Proof that cached kernels compute what they claim: problems, runs, verdicts, evidence."""
