"""What the server says about itself: groups, versions and resources, OpenAPI, its version."""
