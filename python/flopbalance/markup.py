"""Tables in HTML, for pages and notebooks."""

from collections.abc import Iterable, Sequence
from html import escape

from flopbalance.text import printable


def html_text(text: str) -> str:
    r"""Return a text of others as HTML shows it: no markup, and nothing that it does not show or that turns it around.

    Examples
    --------
    >>> print(html_text("<b>\x1b"))
    &lt;b&gt;\x1b
    """
    return escape(printable(text))


def html_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table as an HTML element.

    Examples
    --------
    >>> print(html_table(["mode", "idle"], [["plain", "12 %"]]))
    <table>
    <tr><th>mode</th><th>idle</th></tr>
    <tr><td>plain</td><td>12 %</td></tr>
    </table>
    """
    lines = [_row("th", header), *(_row("td", row) for row in rows)]
    return "\n".join(["<table>", *lines, "</table>"])


def _row(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{html_text(cell)}</{tag}>' for cell in cells)}</tr>"
