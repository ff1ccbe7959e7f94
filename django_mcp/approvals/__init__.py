"""Calls that somebody else has to approve: tickets, who may decide, and how a call meets its decision."""
