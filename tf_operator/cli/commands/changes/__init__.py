"""Commands that change a job that exists."""
