"""Runs commands: programs of jobs, each under a guard that ends everything that it started."""

from leasehold.commands.handler import command_handler
from leasehold.commands.missing import missing_here
from leasehold.commands.process import NotStarted, Program, run_process

__all__ = ["NotStarted", "Program", "command_handler", "missing_here", "run_process"]
