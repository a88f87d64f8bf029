"""Static pages, read from the package.

Process: api
Step: none
"""

from octavo.api.http.pages.files import page

__all__ = ["page"]
