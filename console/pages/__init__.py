"""The console's pages: one document and modules of our own, served as they are.

Nothing is built, and nothing is fetched from elsewhere. What agents wrote only ever becomes text: no page makes markup
of it.
"""

from haltline.console.pages.serving import install

__all__ = ["install"]
