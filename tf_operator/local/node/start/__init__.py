"""What a pod needs before its containers start: programs, their environment and volumes."""
