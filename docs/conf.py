"""The documentation site: `make docs`. Markdown by MyST, the Python API from docstrings, the look of Furo.

Warnings are errors: among them links to pages, headings and files that do not exist.
"""

from __future__ import annotations

import re
from typing import Any

import asr

project = "asr-stream"
version = release = asr.__version__
html_title = f"asr-stream {release}"
project_copyright = "the authors of asr-stream; Apache-2.0"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "sphinxarg.ext"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4  # as GitHub makes them, so that links work in both places
myst_enable_extensions = ["colon_fence"]
highlight_language = "none"
smartquotes = False  # they turn --help into a dash and a word
default_role = "literal"  # docstrings set names between single backticks
nitpicky = False  # types of NumPy and of the C++ core have no pages here
autodoc_typehints = "signature"
autoclass_content = "both"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "furo"
html_show_sphinx = False
html_copy_source = False
html_static_path = ["style"]
html_css_files = ["site.css"]

PARAMETER = re.compile(r"^(\w+(?:, \w+)*): ")


def with_parameters_as_definitions(
    _app: Any, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]
) -> None:
    """Docstrings here list parameters as `name: text`; in reStructuredText they become a definition list."""
    found: list[str] = []
    listing = False
    for line in lines:
        if parameter := PARAMETER.match(line):
            found += [*[""][: not listing], f"``{parameter[1]}``", f"    {line[parameter.end() :]}"]
            listing = True
            continue
        if listing and line and not line.startswith(" "):
            found.append("")
            listing = False
        found.append(line)
    lines[:] = found


def without_private_names(
    _app: Any, _what: str, _name: str, _obj: Any, _options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    if signature:
        signature = re.sub(r", _\w+: [^=]*= \w+", "", signature).replace("_List", "str | Path | Sequence[str] | None")
    return signature, returned


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", with_parameters_as_definitions)
    app.connect("autodoc-process-signature", without_private_names)
