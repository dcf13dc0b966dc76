"""The documentation site: `make docs`. Markdown by MyST, the look of Furo.

Warnings are errors: among them links to pages, headings and files that do not exist.
"""

from __future__ import annotations

import asr

project = "asr-stream"
version = release = asr.__version__
html_title = f"asr-stream {release}"
project_copyright = "the authors of asr-stream; Apache-2.0"

extensions = ["myst_parser", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4  # as GitHub makes them, so that links work in both places
myst_enable_extensions = ["colon_fence"]
highlight_language = "none"
smartquotes = False  # they turn --help into a dash and a word
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "furo"
html_show_sphinx = False
html_copy_source = False
html_static_path = ["style"]
html_css_files = ["site.css"]
