"""``batch.tensorstack.dev/v1beta1`` TensorFlowTrainingJob, the job of the T9k platform; see docs/t9k.md."""
