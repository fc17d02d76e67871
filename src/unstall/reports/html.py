"""The report as one HTML page that needs nothing else: no network, no script.

Templates escape everything (jinja2's autoescape). The page's own Content-Security-Policy allows
its one style sheet by its hash and nothing more, so that even a hole in the escaping would load
and run nothing.
"""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache
from importlib import resources

from jinja2 import DictLoader, Environment, StrictUndefined, Template
from markupsafe import Markup

from unstall.model.findings import Diagnosis
from unstall.reports.outline import outline


def to_html(diagnosis: Diagnosis, language: str = "en") -> str:
    """The diagnosis as a self-contained page, light or dark as the reader's system is.

    Args:
        diagnosis: what to show.
        language: ``en`` or ``zh``.
    """
    template, style, policy = _page()
    return template.render(
        view=outline(diagnosis, language),
        style=Markup(style),  # noqa: S704 - the package's own file
        policy=policy,
        lang="zh-CN" if language == "zh" else language,
    )


@lru_cache(maxsize=1)
def _page() -> tuple[Template, str, str]:
    """The template, its style sheet and the policy that allows just these."""
    folder = resources.files("unstall.reports").joinpath("templates")
    page = folder.joinpath("report.html.jinja").read_text(encoding="utf-8")
    style = folder.joinpath("report.css").read_text(encoding="utf-8").strip()
    environment = Environment(
        loader=DictLoader({"report": page}),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return environment.get_template("report"), style, policy
