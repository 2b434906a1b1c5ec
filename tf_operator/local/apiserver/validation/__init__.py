"""What is wrong with an object, in the words of kube-apiserver."""
