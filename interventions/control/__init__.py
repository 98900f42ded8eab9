"""What operators command and what follows from it: kill, freeze, approvals, incidents. Pure."""
