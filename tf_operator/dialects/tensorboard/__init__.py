"""``tensorstack.dev/v1beta1`` TensorBoard, an object of the T9k platform that shows the logs of a training."""
