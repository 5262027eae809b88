"""Every code block of the documents runs, links lead somewhere, and the command reference is the parsers'."""

import contextlib
import io
import re
from pathlib import Path

import pytest

import write_commands

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    text = page.read_text(encoding="utf-8")
    for block in re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        line = text.count("\n", 0, block.start(1))
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile("\n" * line + block[1], page, "exec"), namespace)
    assert not list(tmp_path.iterdir()), "a block leaves files in the current folder"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_the_command_reference_is_up_to_date():
    """Else: python docs/write_commands.py > docs/commands.md."""
    assert (ROOT / "docs" / "commands.md").read_text(encoding="utf-8") == write_commands.page()
