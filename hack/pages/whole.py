"""A hook of MkDocs: the site that was built is whole, and needs no other host."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority, get_plugin_logger

from pages import built

LOG = get_plugin_logger("pages")


@event_priority(-200)  # type: ignore[untyped-decorator] # MkDocs is not in .venv
def on_post_build(config: MkDocsConfig) -> None:
    """Warn of each problem, when all plugins are done; with ``--strict`` a warning fails the build."""
    for problem in built.problems(Path(config.site_dir)):
        LOG.warning("%s", problem)
