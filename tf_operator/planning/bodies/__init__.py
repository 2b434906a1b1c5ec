"""The objects that a job's plan creates, as bodies ready to be sent: pods, Services and PodGroups."""
