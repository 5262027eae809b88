"""Built-in shapes by name."""

import pytest

from flopbalance.costs.models.shapes import built_in_shapes, load_shape, shape_names


def test_names_match_in_any_case():
    assert load_shape("QWEN3-8b") == load_shape("qwen3-8B")
    assert load_shape("qwen3-8B")["num_layers"] == 36


def test_a_shape_is_a_copy():
    load_shape("qwen3-8B").clear()
    assert load_shape("qwen3-8B")


@pytest.mark.parametrize(("name", "near"), [("qwen3-8", "qwen3-8B"), ("glm4.5", "glm4-9B"), ("GPT-OSS", "gpt-oss-20b")])
def test_an_unknown_name_shows_a_few_near_it(name, near):
    with pytest.raises(ValueError, match=f"model must be a built-in shape, got '{name}'; near it: .*{near}") as refusal:
        load_shape(name)
    assert str(refusal.value).count(",") <= 3
    assert str(refusal.value).endswith("; all: flopbalance costs --list")


@pytest.mark.parametrize("name", ["", "bloom", "seed-test-tin", "variant-moe-freq"])
def test_a_name_like_none_shows_no_other(name):
    with pytest.raises(ValueError, match="must be a built-in shape") as refusal:
        load_shape(name)
    assert str(refusal.value).endswith("flopbalance costs --list")
    assert len(str(refusal.value)) < 150


def test_every_shape_is_listed_and_trained():
    assert set(shape_names()) == set(built_in_shapes())
    assert not any("test" in name or "variant" in name for name in shape_names())
