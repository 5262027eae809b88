"""Built-in shapes by name."""

import pytest

from flopbalance.models import load_shape


def test_names_match_in_any_case():
    assert load_shape("QWEN3-8b") == load_shape("qwen3-8B")
    assert load_shape("qwen3-8B")["num_layers"] == 36


def test_a_shape_is_a_copy():
    load_shape("qwen3-8B").clear()
    assert load_shape("qwen3-8B")


@pytest.mark.parametrize(("name", "near"), [("qwen3-8", "qwen3-8B"), ("glm4.5", "glm4-9B"), ("", "qwen3-8B")])
def test_an_unknown_name_shows_those_near_it(name, near):
    with pytest.raises(ValueError, match=f"model must be a built-in shape, got '{name}'; near it: .*{near}"):
        load_shape(name)
