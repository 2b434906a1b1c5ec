"""Processes of the user, apart from what they run for: who starts them, signals them, limits their memory."""
