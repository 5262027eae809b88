"""The balance options compose with a trainer's own, and contradict each other only aloud."""

import argparse
from types import SimpleNamespace

import pytest

from flopbalance.trainers.arguments import add_balance_arguments, validate_balance_args

FLAGS = [
    "--balance-data",
    "--balance-by-flops",
    "--balance-within-cap",
    "--balance-objective",
    "--micro-batch-overhead",
    "--on-leftover",
    "--on-oversize",
    "--on-shortage",
    "--use-dynamic-batch-size",
    "--micro-batch-size",
    "--max-tokens-per-gpu",
    "--log-probs-max-tokens-per-gpu",
    "--global-batch-size",
    "--flops-model",
]


def parse(*flags, parser=None):
    return add_balance_arguments(parser or argparse.ArgumentParser()).parse_args(flags)


def test_defaults():
    assert vars(parse()) == {
        "balance_data": False,
        "balance_by_flops": False,
        "balance_within_cap": False,
        "balance_objective": "step",
        "micro_batch_overhead": 0.0,
        "on_leftover": "drop",
        "on_oversize": "alone",
        "on_shortage": "error",
        "use_dynamic_batch_size": False,
        "micro_batch_size": 1,
        "max_tokens_per_gpu": None,
        "log_probs_max_tokens_per_gpu": None,
        "global_batch_size": None,
        "flops_model": "published",
    }


def test_every_flag():
    args = parse(
        *("--balance-data", "--balance-by-flops", "--balance-within-cap", "--balance-objective", "pipeline"),
        *("--micro-batch-overhead", "1e12"),
        *("--on-leftover", "partial", "--on-oversize", "drop", "--on-shortage", "repeat"),
        *("--use-dynamic-batch-size", "--micro-batch-size", "2"),
        *("--max-tokens-per-gpu", "8192", "--log-probs-max-tokens-per-gpu", "16384", "--global-batch-size", "64"),
        *("--flops-model", "exact"),
    )
    choices = ["pipeline", 1e12, "partial", "drop", "repeat"]
    assert list(vars(args).values()) == [True, True, True, *choices, True, 2, 8192, 16384, 64, "exact"]


def test_help_warns_of_memory(capsys):
    with pytest.raises(SystemExit):
        parse("--help")
    text = " ".join(capsys.readouterr().out.split()).replace("- ", "-")  # help also breaks lines after hyphens
    assert "FLOPs packing may exceed --max-tokens-per-gpu, so that the GPU may run out of memory" in text
    assert all(flag in text for flag in FLAGS)


@pytest.mark.parametrize("conflict_handler", ["error", "resolve"])
@pytest.mark.parametrize("flag", FLAGS)
def test_the_host_keeps_its_option(flag, conflict_handler):
    parser = argparse.ArgumentParser(conflict_handler=conflict_handler)
    parser.add_argument(flag, type=str, default="host")
    args = parse(parser=parser)
    assert getattr(args, flag[2:].replace("-", "_")) == "host"
    assert len(vars(args)) == len(FLAGS)


@pytest.mark.parametrize("spelling", ["--balance_data", "--spread"])
def test_the_host_keeps_an_option_of_another_spelling(spelling):
    parser = argparse.ArgumentParser()
    parser.add_argument(spelling, dest="balance_data", action="store_true")
    assert parse(spelling, parser=parser).balance_data is True
    assert parser.parse_known_args(["--balance-data"])[1] == ["--balance-data"]


def test_the_host_keeps_options_of_groups_and_parents():
    parent = argparse.ArgumentParser(add_help=False)
    parent.add_argument("--micro-batch-size", type=int, default=3)
    parser = argparse.ArgumentParser(parents=[parent])
    either = parser.add_argument_group("host").add_mutually_exclusive_group()
    either.add_argument("--balance-data", action=argparse.BooleanOptionalAction)
    either.add_argument("--shuffle", action="store_true")
    args = parse("--no-balance-data", parser=parser)
    assert (args.micro_batch_size, args.balance_data) == (3, False)


def test_adding_twice_changes_nothing():
    parser = add_balance_arguments(argparse.ArgumentParser())
    text = parser.format_help()
    assert add_balance_arguments(parser).format_help() == text


def test_within_cap_switches_balance_data_on():
    args = parse("--balance-within-cap", "--use-dynamic-batch-size", "--max-tokens-per-gpu", "10")
    assert validate_balance_args(args).balance_data


def test_by_flops_switches_balance_data_on():
    args = parse("--balance-by-flops", "--use-dynamic-batch-size", "--max-tokens-per-gpu", "10")
    assert validate_balance_args(args) is args
    assert args.balance_data is True


def test_log_probs_cap_defaults_to_the_cap():
    args = validate_balance_args(parse("--use-dynamic-batch-size", "--max-tokens-per-gpu", "10"))
    assert args.log_probs_max_tokens_per_gpu == 10
    args.max_tokens_per_gpu = 20
    assert validate_balance_args(args).log_probs_max_tokens_per_gpu == 10


def test_static_batches_need_no_cap():
    args = parse("--balance-data")
    before = dict(vars(args))
    assert vars(validate_balance_args(args)) == before


@pytest.mark.parametrize("kind", [argparse.Namespace, SimpleNamespace])
def test_a_namespace_may_lack_any(kind):
    assert vars(validate_balance_args(kind())) == {}
    args = validate_balance_args(kind(balance_by_flops=True, use_dynamic_batch_size=True, max_tokens_per_gpu=7))
    assert (args.balance_data, args.log_probs_max_tokens_per_gpu) == (True, 7)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"balance_by_flops": True}, "^--balance-by-flops needs --use-dynamic-batch-size$"),
        ({"balance_by_flops": True, "max_tokens_per_gpu": 5}, "^--balance-by-flops needs --use-dynamic-batch-size$"),
        ({"use_dynamic_batch_size": True}, "^--use-dynamic-batch-size needs --max-tokens-per-gpu$"),
        ({"balance_within_cap": True}, "^--balance-within-cap needs --use-dynamic-batch-size$"),
        ({"balance_within_cap": True, "balance_by_flops": True}, "^--balance-within-cap excludes --balance-by-flops: "),
        ({"balance_objective": "pipeline"}, "^--balance-objective pipeline needs --balance-within-cap$"),
        ({"micro_batch_overhead": 5.0}, "^--micro-batch-overhead needs --balance-objective pipeline$"),
        ({"micro_batch_overhead": -0.5}, "^--micro-batch-overhead must be >= 0 and finite, got -0.5$"),
        ({"micro_batch_overhead": float("nan")}, "^--micro-batch-overhead must be >= 0 and finite, got nan$"),
        ({"on_shortage": "repeat"}, "^--on-shortage repeat needs --balance-within-cap$"),
        ({"balance_by_flops": True, "use_dynamic_batch_size": True}, "needs --max-tokens-per-gpu$"),
        ({"max_tokens_per_gpu": 0}, "^--max-tokens-per-gpu must be >= 1, got 0$"),
        ({"log_probs_max_tokens_per_gpu": -3}, "^--log-probs-max-tokens-per-gpu must be >= 1, got -3$"),
        ({"micro_batch_size": 0}, "^--micro-batch-size must be >= 1, got 0$"),
        ({"global_batch_size": 0}, "^--global-batch-size must be >= 1, got 0$"),
    ],
)
def test_refuses(given, message):
    args = argparse.Namespace(**given)
    with pytest.raises(ValueError, match=message):
        validate_balance_args(args)
    assert vars(args) == given


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("max_tokens_per_gpu", "4096", "--max-tokens-per-gpu must be a whole number, got '4096'"),
        ("max_tokens_per_gpu", 5.5, "--max-tokens-per-gpu must be a whole number, got 5.5"),
        ("micro_batch_size", True, "--micro-batch-size must be a whole number, got True"),
        ("micro_batch_size", [1], r"--micro-batch-size must be a whole number, got \[1\]"),
        ("flops_model", "zzz", "--flops-model must be one of published, exact, got 'zzz'"),
        ("on_leftover", "zzz", "--on-leftover must be one of drop, partial, error, got 'zzz'"),
    ],
)
def test_values_that_a_host_may_leave_unchecked(name, value, message):
    with pytest.raises(ValueError, match=message):
        validate_balance_args(argparse.Namespace(**{name: value}))


def test_a_default_of_the_host_stands():
    parser = argparse.ArgumentParser()
    parser.set_defaults(micro_batch_size=9)
    assert add_balance_arguments(parser).parse_args([]).micro_batch_size == 9


def test_a_mapping_is_checked_as_a_namespace_is():
    with pytest.raises(ValueError, match=r"^--balance-by-flops needs --use-dynamic-batch-size$"):
        validate_balance_args({"balance_by_flops": True})
    args = {"balance_within_cap": True, "use_dynamic_batch_size": True, "max_tokens_per_gpu": 7}
    assert validate_balance_args(args) is args
    assert (args["balance_data"], args["log_probs_max_tokens_per_gpu"]) == (True, 7)


def test_values_may_be_spelled_as_in_yaml():
    args = {"balance_by_flops": 1, "use_dynamic_batch_size": 1.0, "max_tokens_per_gpu": 12.0, "balance_within_cap": 0}
    assert validate_balance_args(args)["balance_data"] is True
    for name, value in (("balance_data", 2), ("use_dynamic_batch_size", "yes"), ("max_tokens_per_gpu", 12.5)):
        with pytest.raises(ValueError, match=f"--{name.replace('_', '-')} must be .*, got"):
            validate_balance_args({**args, name: value})


def test_a_choice_for_the_cap_needs_a_cap():
    with pytest.raises(ValueError, match=r"^--on-oversize drop needs --use-dynamic-batch-size$"):
        validate_balance_args({"on_oversize": "drop"})


def test_a_wrong_word_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match=r"--on-leftover must be .*, got 'dropped': did you mean 'drop'[?]"):
        validate_balance_args({"on_leftover": "dropped"})
