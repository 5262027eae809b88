"""Which cost a word means: names, configurations, saved costs, ``--flops-model``."""

from __future__ import annotations

import json
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from flopbalance import (
    CostModel,
    FittedCost,
    PublishedFlops,
    build_dp_schedule,
    load_cost,
    plan,
    read_cost,
    save_cost,
    select_flops_model,
)
from flopbalance.costs.models.shapes import load_shape
from test_cost_model import HF_DENSE

FITTED = FittedCost(
    per_micro_batch=0.1,
    per_token=1 / 3,
    per_square=1e-300,
    per_pair=2,
    windows=((64, 6),),
    intervals={"per_token": (0.3, 0.4)},
    holdout_error=0.05,
    micro_batches=12,
)


@pytest.mark.parametrize("cost", [FITTED, CostModel.from_name("glm5-744b-a40b")], ids=["fitted", "exact"])
def test_a_saved_cost_comes_back(tmp_path, cost):
    save_cost(cost, tmp_path / "cost.json")
    for again in (load_cost(tmp_path / "cost.json"), read_cost(str(tmp_path / "cost.json"))):
        assert again == cost
        assert again.flops([100, 1000]).tolist() == cost.flops([100, 1000]).tolist()


def test_what_a_word_means(tmp_path):
    model = CostModel.from_name("qwen3-8b")
    assert read_cost("QWEN3-8b") == model
    published = read_cost("qwen3-8b", "published")
    assert isinstance(published, PublishedFlops)
    (tmp_path / "args.json").write_text(json.dumps(load_shape("qwen3-8b")))
    assert read_cost(str(tmp_path / "args.json")) == model
    (tmp_path / "config.json").write_text(json.dumps(HF_DENSE))
    for source in (tmp_path, tmp_path / "config.json"):
        assert read_cost(str(source)) == read_cost(str(source), "published") == CostModel.from_hf_config(HF_DENSE)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"flopbalance_cost": "other"}', 'must be a saved cost, of kind exact or fitted, got kind "other"'),
        ('{"flopbalance_cost": "exact"}', "no whole saved cost: "),
        ('{"flopbalance_cost": "exact", "per_token": -1}', "no whole saved cost: per_token must be >= 0"),
        ('{"flopbalance_cost": "exact", "per_token": 1, "windows": [[1]]}', "no whole saved cost: "),
        ('{"flopbalance_cost": "exact", "per_token": 1, "windows": 3}', "no whole saved cost: "),
        ('{"flopbalance_cost": "exact", "per_token": 1, "colour": 3}', "no whole saved cost: "),
        ('{"flopbalance_cost": "fitted", "per_micro_batch": 0, "per_token": "a", "per_square": 0}', "per_token must"),
        ('{"flopbalance_cost": "exact", "per_token": 1', "line 1, column 45: expected JSON, found the end"),
        ("[]", "must hold a JSON object, got list"),
        ('{"flopbalance_cost": []}', r"must be a saved cost, of kind exact or fitted, got kind \[\]"),
        (
            '{"flopbalance_cost": "exact", "per_token": 1, "notes": 7}',
            "no whole saved cost: notes must be texts, got 7",
        ),
        (
            f'{{"flopbalance_cost": "fitted", "per_micro_batch": 0, "per_token": {10**400}, "per_square": 0}}',
            "no whole saved cost: per_token must be >= 0 and finite, got 1000000",
        ),
    ],
)
def test_files_that_are_no_saved_cost(tmp_path, content, message):
    path = tmp_path / "cost.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=message) as refusal:
        load_cost(path)
    assert str(refusal.value).startswith(f"{path}: ")


def test_words_that_mean_nothing(tmp_path):
    with pytest.raises(ValueError, match="must be a built-in shape, got 'qwen9'; near it"):
        read_cost("qwen9")
    with pytest.raises(ValueError, match="models/qwen3-8b: no such file or folder"):
        read_cost("models/qwen3-8b")
    with pytest.raises(ValueError, match=r"absent\.json: No such file"):
        read_cost(str(tmp_path / "absent.json"))
    (tmp_path / "cost.json").write_text(json.dumps(HF_DENSE))
    with pytest.raises(ValueError, match=r"cost\.json: must be a saved cost"):
        load_cost(tmp_path / "cost.json")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ('"per_token": NaN', "per_token must be >= 0 and finite, got nan"),
        ('"per_token": Infinity', "per_token must be >= 0 and finite, got inf"),
        ('"per_token": 1e400', "per_token must be >= 0 and finite, got inf"),
        ('"per_token": "1"', "per_token must be a number, got '1'"),
        ('"per_token": null', "per_token must be a number, got None"),
        (f'"per_token": 0, "per_pair": {10**400}', r"per_pair must be below 2\^59, got 1000"),
        ('"per_token": 0.5, "per_token": 0.25', 'found more than one value of "per_token"'),
        ('"per_token": 0.5, "more": 1', 'expected per_micro_batch, per_token, .*, found "more"'),
        ('"per_token": 0.5, "components": [1]', 'expected per_micro_batch, .* found "components"'),
        ('"per_token": 0.5, "windows": 5', r"windows must be pairs \(window, FLOPs per pair\), got 5"),
        ('"per_token": 0.5, "windows": [[1, NaN]]', r"windows\[0\]\[1\] must be a whole number, got nan"),
        ('"per_token": 0.5, "intervals": 5', "intervals must be pairs of numbers by coefficient, got 5"),
        ('"per_token": 0.5, "intervals": {"per_token": 5}', "intervals must be pairs of numbers by coefficient"),
        (
            '"per_token": 0.5, "intervals": {"per_token": ["a", "b"]}',
            "intervals must be pairs of numbers by coefficient",
        ),
        ('"per_token": 0.5, "holdout_error": -1', "holdout_error must be >= 0 and finite, got -1"),
        ('"per_token": 0.5, "tokens_only_error": []', r"tokens_only_error must be a number, got \[\]"),
        ('"per_token": 0.5, "micro_batches": 0.5', "micro_batches must be a whole number, got 0.5"),
        ('"per_token": 0.5, "longest": -5', "longest must be >= 0, got -5"),
        (f'"per_token": {"9" * 5000}', "expected JSON of a usual depth and size"),
        (f'"per_token": 0.5, "{"x" * 10_000}": 1', 'found "xxx'),
    ],
    ids=lambda value: value[:40],
)
def test_fitted_costs_that_cannot_be(tmp_path, changes, message):
    path = tmp_path / "cost.json"
    path.write_text(f'{{"flopbalance_cost": "fitted", "per_micro_batch": 0, "per_square": 0, {changes}}}')
    with pytest.raises(ValueError, match=message) as refusal:
        load_cost(path)
    assert str(refusal.value).startswith(f"{path}: ")
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 600


@pytest.mark.parametrize("cost", [FITTED, CostModel(7, 8, 9, ((64, 6),), notes=("a",))], ids=["fitted", "exact"])
def test_a_damaged_cost_is_refused_or_a_cost(tmp_path, cost):
    """Put other words into a saved cost, 1,000 times."""
    path = tmp_path / "cost.json"
    save_cost(cost, path)
    content = path.read_text()
    words = [
        "NaN",
        "-1",
        "1e400",
        "9" * 400,
        "null",
        "[]",
        "{}",
        '""',
        "[[1, 2]]",
        "true",
        "0",
        "}",
        '"',
        ",",
        "\0",
        "\n",
    ]
    random = np.random.RandomState(13)
    loaded = 0
    for _ in range(1000):
        start = random.randint(len(content))
        end = start + random.randint(12)
        path.write_text(content[:start] + words[random.randint(len(words))] + content[end:])
        try:
            read = load_cost(path)
        except ValueError as error:
            assert "\n" not in str(error)  # noqa: PT017
            assert len(str(error)) < 700  # noqa: PT017
        else:
            assert (np.asarray(read.flops([0, 1, 1000])) >= 0).all()
            assert read.describe()
            loaded += 1
    assert 0 < loaded < 1000


def test_what_is_no_cost_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="cost must be a CostModel or a FittedCost, got 'qwen3-8b'"):
        save_cost("qwen3-8b", tmp_path / "cost.json")
    assert not (tmp_path / "cost.json").exists()


def test_flops_models():
    args = SimpleNamespace(**load_shape("qwen3-8b"))
    assert select_flops_model(args).flops([1000]).tolist() == PublishedFlops(args).flops([1000]).tolist()
    assert select_flops_model(args, "exact") == CostModel.from_args(args)
    with pytest.raises(ValueError, match="flops_model must be one of published, exact, got 'rough'"):
        select_flops_model(args, "rough")


def test_a_trainer_may_name_any_cost(tmp_path):
    args = {**load_shape("qwen3-8b"), "hf_checkpoint": str(tmp_path)}
    (tmp_path / "config.json").write_text(json.dumps(HF_DENSE))
    save_cost(FITTED, tmp_path / "cost.json")
    folder = CostModel.from_hf_config(HF_DENSE)
    assert select_flops_model(args, "hf_checkpoint") == select_flops_model(args, tmp_path) == folder
    assert select_flops_model(SimpleNamespace(hf_checkpoint=tmp_path), "hf_checkpoint") == folder
    assert select_flops_model(args, str(tmp_path / "cost.json")) == FITTED
    assert select_flops_model(args, "gpt-oss-20b") == CostModel.from_name("gpt-oss-20b")
    assert select_flops_model(args, FITTED) is FITTED
    with pytest.raises(ValueError, match=r"flops_model must be one of .*absent\.json: No such file"):
        select_flops_model(args, tmp_path / "absent.json")


@pytest.mark.parametrize("spec", [["plugins.models.next", "get_spec"], "plugins.models.next get_spec"])
@pytest.mark.parametrize("name", ["spec", "custom_model_provider_path"])
def test_layers_that_the_arguments_need_not_describe(name, spec):
    shape = load_shape("qwen3-8b")
    with pytest.warns(UserWarning, match=rf"args.{name} = plugins.models.next get_spec .*flops_model='hf_checkpoint'"):
        assert CostModel.from_args({**shape, name: spec}) == CostModel.from_name("qwen3-8b")


@pytest.mark.parametrize(
    "fields",
    [
        {"spec": None},
        {"spec": []},
        {"spec": ["local"]},
        {"spec": "local"},
        {"spec": ["plugins", "spec"], "layer_types": ["full_attention"] * 36},
        {"spec": ["plugins", "spec"], "window_size": (127, 0)},
    ],
    ids=["none", "empty", "list of local", "local", "layers named", "windows"],
)
def test_layers_that_the_arguments_describe(fields):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CostModel.from_args({**load_shape("qwen3-8b"), **fields})
        PublishedFlops({**load_shape("qwen3-8b"), **fields})


def test_trainers_choose_by_their_arguments():
    random = np.random.default_rng(0)
    lengths = random.lognormal(8, 1.5, 64).astype(int) + 1
    parallel = {"dp_size": 4, "cp_size": 1, "vpp_size": 1, "microbatch_group_size_per_vp_stage": 1}
    args = {**load_shape("glm5-744b-a40b"), "micro_batch_size": 1, "balance_data": True}

    def schedule(**options):
        return build_dp_schedule(
            {**args, **options}, parallel, lengths, global_batch_size=64, rollout_indices=range(64)
        )

    assert schedule() == schedule(flops_model="published") == schedule(flops_model=None)
    assert schedule(flops_model="exact") != schedule()
    with pytest.raises(ValueError, match=r"args.flops_model must be one of published, exact"):
        schedule(flops_model="rough")


def test_a_trainer_plans_by_any_cost(tmp_path):
    lengths = np.random.default_rng(1).lognormal(8, 1.5, 64).astype(int) + 1
    parallel = {"dp_size": 4, "cp_size": 1, "vpp_size": 1, "microbatch_group_size_per_vp_stage": 1}
    save_cost(FITTED, tmp_path / "cost.json")
    (tmp_path / "config.json").write_text(json.dumps(HF_DENSE))
    costs = {
        str(tmp_path / "cost.json"): FITTED,
        str(tmp_path): CostModel.from_hf_config(HF_DENSE),
        "hf_checkpoint": CostModel.from_hf_config(HF_DENSE),
        FITTED: FITTED,
    }
    for flops_model, cost in costs.items():
        # The arguments have no shape of a model, which nothing needs.
        args = {"use_dynamic_batch_size": True, "max_tokens_per_gpu": 20_000, "balance_data": True}
        args |= {"flops_model": flops_model, "hf_checkpoint": tmp_path}
        lists = build_dp_schedule(args, parallel, lengths, global_batch_size=64, rollout_indices=range(64))
        assert lists == plan(lengths, costs=cost, dp_size=4, max_tokens=20_000).to_lists()
