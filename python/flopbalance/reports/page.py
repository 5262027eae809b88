"""A picture and a table as one HTML file that needs nothing else: to be mailed, archived, opened anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flopbalance.markup import html_table, html_text

_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ max-width: 76rem; margin: 2rem auto; padding: 0 1rem; font: 15px/1.5 sans-serif }}
body {{ color: #222; background: #fff }}
h1 {{ font-size: 1.4rem }}
table {{ border-collapse: collapse }}
th, td {{ padding: .2rem .8rem; text-align: right; font-variant-numeric: tabular-nums }}
th:first-child, td:first-child {{ text-align: left }}
th {{ border-bottom: 1px solid #222 }}
svg {{ width: 100%; height: auto }}
</style>
</head>
<body>
<h1>{title}</h1>
{table}
<figure style="margin: 1rem 0">
{svg}
</figure>
</body>
</html>
"""


def html_page(
    title: str, svg: str, header: Sequence[str] = (), rows: Iterable[Sequence[str]] = (), notes: Iterable[str] = ()
) -> str:
    """Return a page with a heading, a table and a picture.

    Parameters
    ----------
    title : str
        Plain text, as are all cells.
    svg : str
        The picture, as an SVG document or element; goes into the page as it is.
    header : sequence of str
        Of the table; without it there is none.
    rows : iterable of sequences of str
        As long as the header.
    notes : iterable of str
        Lines below the table, plain text.

    Examples
    --------
    >>> page = html_page("Ranks < 3", "<svg></svg>", ["mode", "idle"], [["plain", "12 %"]])
    >>> page.count("<svg>"), "<h1>Ranks &lt; 3</h1>" in page
    (1, True)
    """
    svg = svg[svg.index("<svg") :]  # HTML knows no XML declaration and no second document type
    table = html_table(header, rows) if header else ""
    table += "".join(f"\n<p>{html_text(note)}</p>" for note in notes)
    return _PAGE.format(title=html_text(title), table=table, svg=svg)
