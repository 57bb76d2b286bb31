"""Claims: which tenants come next, which part of their lanes is read, and the statements that take jobs."""
