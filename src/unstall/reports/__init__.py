"""Reports of one diagnosis: for a terminal, an issue tracker, a program and a browser.

* :func:`unstall.reports.terminal.render` prints the verdict on one screen, or everything
* :func:`unstall.reports.markdown.to_markdown` can be pasted into an issue tracker
* :func:`unstall.reports.json.to_json` is for programs and keeps its keys
* :func:`unstall.reports.html.to_html` is one page that needs nothing else

What the first, second and last say stands in :mod:`unstall.reports.outline`; they only lay it out.
"""
