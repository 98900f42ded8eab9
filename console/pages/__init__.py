"""The console's pages: one document and modules of our own, served unchanged.

There is no build step, and no external resources are loaded. Agents' texts are only inserted as text, never as markup.
"""

from haltline.console.pages.serving import install

__all__ = ["install"]
