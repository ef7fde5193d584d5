"""The fast engine: handlers and their runtime, written as LLVM IR from the table and compiled for the host."""
