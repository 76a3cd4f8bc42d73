"""The site: `make docs` builds it into site/, warnings are errors, nothing is fetched at view time."""

import re
from importlib.metadata import version as installed

project = "goalward"
author = "the goalward authors"
version = release = installed("goalward")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
]
# A page that has only its name yet is listed once it has a heading.

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

# `__all__` says what is public.
autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
default_role = "literal"
add_module_names = False
napoleon_attr_annotations = False  # types stand in the signature
napoleon_google_docstring = False
napoleon_use_param = False
napoleon_use_rtype = False
python_maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "goalward"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/logo.svg"
html_copy_source = False
html_show_copyright = False
html_show_sourcelink = False
html_theme_options = {
    "light_logo": "logo.svg",
    "dark_logo": "logo.svg",
    "top_of_page_buttons": [],
    "light_css_variables": {
        "color-brand-primary": "#12606e",
        "color-brand-content": "#0f7384",
        "color-brand-visited": "#0f7384",
    },
    "dark_css_variables": {
        "color-brand-primary": "#5cc3d3",
        "color-brand-content": "#5cc3d3",
        "color-brand-visited": "#5cc3d3",
    },
}
pygments_style = "friendly"
pygments_dark_style = "monokai"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


LONG = re.compile(
    r"~?(?:numpy\.)?ndarray\[tuple\[~?(?:typing\.)?Any, \.\.\.\], "
    r"~?(?:numpy\.)?dtype\[~?(?:typing\.)?Any\]\]"
)


def shortened(app, what, name, obj, options, signature, returns):
    """Return a signature that names NumPy's arrays as the code does, and parses."""
    return tuple(
        text and LONG.sub("NDArray[Any]", text).replace("<factory>", "...")
        for text in (signature, returns)
    )


KEPT: dict[str, list[str]] = {}


def keep(app, what, name, obj, options, lines):
    """Hide a property's "this: that" from Napoleon, which would read a type before the colon."""
    if what in ("attribute", "property"):
        KEPT[name], lines[:] = list(lines), ["kept"]


def give_back(app, what, name, obj, options, lines):
    """Put it back, a sentence as it was."""
    lines[:] = KEPT.pop(name, lines)


def setup(app):
    app.connect("autodoc-process-docstring", keep, priority=400)
    app.connect("autodoc-process-docstring", give_back, priority=600)
    app.connect("autodoc-process-signature", shortened)
