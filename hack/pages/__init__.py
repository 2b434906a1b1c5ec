"""The documentation site: what ``mkdocs.yml`` adds to MkDocs. Runs in the environment of hack/requirements/docs.txt."""
