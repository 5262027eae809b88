"""Tables in HTML, for pages and notebooks."""

from collections.abc import Iterable, Sequence
from html import escape


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
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
