"""A hook of MkDocs: search answers users before contributors, and screen readers hear what its dialog is."""

from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

# How much a page of a folder counts; the first that fits, other pages count once.
WEIGHTS: Final = {
    "start/": 3.0,
    "concepts/": 3.0,
    "how-to/": 2.0,
    "behaviour": 2.0,
    "troubleshooting": 2.0,
    "mlkube": 0.5,
    "t9k": 0.5,
    "adr/": 0.2,
    "repository/": 0.2,
}
DIALOG: Final = '<div class="md-search" data-md-component="search" role="dialog"'


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 (a hook)
    weight = next((weight for folder, weight in WEIGHTS.items() if page.file.src_uri.startswith(folder)), 1.0)
    page.meta["search"] = {"boost": weight}
    return markdown


def on_post_page(output: str, *, page: Page, config: MkDocsConfig) -> str:  # noqa: ARG001 (a hook)
    """Name the dialog, which the theme does not."""
    if DIALOG not in output:
        raise ValueError("the theme's search dialog looks otherwise now: hack/pages/search.py names it")
    return output.replace(DIALOG, f'{DIALOG} aria-label="Search"')


def on_post_template(output: str, *, template_name: str, config: MkDocsConfig) -> str:  # noqa: ARG001 (a hook)
    """Name the dialog on the page of what is not found, too."""
    return output.replace(DIALOG, f'{DIALOG} aria-label="Search"')
