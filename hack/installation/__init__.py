"""What ``tfjob install`` applies, made of the manifests: ``hack/generate installation``."""
