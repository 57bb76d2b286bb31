"""How any long-running service is run: supervised tasks, processes with signals, child processes."""
