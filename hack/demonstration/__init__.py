"""What is shown to people: ``training``, which is ``hack/demo``, and its picture, and that of ``tfjob ui``."""
