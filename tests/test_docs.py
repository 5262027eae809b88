"""Every code block of the documents runs, links lead somewhere, names are public, and the commands are the parsers'."""

import ast
import contextlib
import importlib
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

import flopbalance
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


def imported(tree):
    """Return the names that code imports from the package, with the modules that it names."""
    return [
        (alias.asname or alias.name, node.module)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "flopbalance"
        for alias in node.names
    ]


def test_type_checkers_see_the_public_names():
    tree = ast.parse(Path(flopbalance.__file__).read_text(encoding="utf-8"))
    names = imported(next(node for node in tree.body if isinstance(node, ast.If)))
    assert sorted(name for name, _ in names) == sorted(flopbalance.__all__)
    assert set(flopbalance.__all__) <= set(dir(flopbalance))
    for name, module in names:
        assert getattr(flopbalance, name) is getattr(importlib.import_module(module), name)
        assert getattr(flopbalance, name).__module__ == module


def test_documents_use_public_names_only():
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    blocks = "\n".join(block[1] for block in re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))
    names = {name for name, module in imported(ast.parse(blocks)) if module == "flopbalance"}
    names |= set(re.findall(r"\bflopbalance\.([a-zA-Z]\w*)\(", blocks))
    assert len(names) > 15
    assert names <= set(flopbalance.__all__)


def test_a_trainer_waits_only_for_what_it_uses():
    code = """if True:
        import sys, flopbalance
        before = {name for name in sys.modules if name.startswith("flopbalance.")}
        flopbalance.plan
        rooms = {name.split(".")[1] for name in sys.modules if name.startswith("flopbalance.")}
        print(sorted(before), sorted(rooms & {"lengths", "costs", "reports", "trainers", "commands"}))
    """
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[] []\n"
