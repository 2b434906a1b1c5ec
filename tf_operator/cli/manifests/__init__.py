"""The files of a command, the objects in them, and the text of new ones."""
