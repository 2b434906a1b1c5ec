"""What is stored, in memory and on disk, and nothing about what it means."""
