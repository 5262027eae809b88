"""The balance options compose with a trainer's own, and contradict each other only aloud."""

import argparse
import copy
import dataclasses
import re
from types import MappingProxyType, SimpleNamespace

import pytest

from flopbalance import PublishedFlops
from flopbalance.costs.models.shapes import load_shape
from flopbalance.trainers.arguments import add_balance_arguments, validate_balance_args

FLAGS = [
    "--balance-data",
    "--balance-by-flops",
    "--balance-within-cap",
    "--balance-objective",
    "--micro-batch-overhead",
    "--micro-batches-per-rank",
    "--min-micro-batches-per-rank",
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
        "micro_batch_overhead": None,
        "micro_batches_per_rank": None,
        "min_micro_batches_per_rank": None,
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
        *("--micro-batch-overhead", "1e12", "--micro-batches-per-rank", "4", "--min-micro-batches-per-rank", "2"),
        *("--on-leftover", "partial", "--on-oversize", "drop", "--on-shortage", "repeat"),
        *("--use-dynamic-batch-size", "--micro-batch-size", "2"),
        *("--max-tokens-per-gpu", "8192", "--log-probs-max-tokens-per-gpu", "16384", "--global-batch-size", "64"),
        *("--flops-model", "exact"),
    )
    choices = ["pipeline", 1e12, 4, 2, "partial", "drop", "repeat"]
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
        ({"micro_batch_overhead": 5.0}, "^--micro-batch-overhead needs --balance-within-cap$"),
        ({"micro_batches_per_rank": 2}, "^--micro-batches-per-rank needs --balance-within-cap$"),
        ({"min_micro_batches_per_rank": 2}, "^--min-micro-batches-per-rank needs --balance-within-cap$"),
        ({"micro_batches_per_rank": 0}, "^--micro-batches-per-rank must be >= 1, got 0$"),
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
        (
            "flops_model",
            "zzz",
            "--flops-model must be one of published, exact, got 'zzz', which is neither hf_checkpoint",
        ),
        ("flops_model", 3, r"--flops-model must be a word, a path or an object; an object must have flops\(lengths\)"),
        (
            "flops_model",
            "hf_checkpoint",
            "args.hf_checkpoint must be a folder for --flops-model hf_checkpoint, got None",
        ),
        ("on_leftover", "zzz", "--on-leftover must be one of drop, partial, error, got 'zzz'"),
    ],
)
def test_values_that_a_host_may_leave_unchecked(name, value, message):
    with pytest.raises(ValueError, match=message):
        validate_balance_args(argparse.Namespace(**{name: value}))


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_a_default_of_the_host_stands(late):
    parser = argparse.ArgumentParser()
    if late:
        add_balance_arguments(parser)
    parser.set_defaults(micro_batch_size=9, balance_data=True)
    args = parse(parser=parser)
    assert (args.micro_batch_size, args.balance_data) == (9, True)


def megatron_style(parser):
    """Add options as large trainers do: a function for each group."""

    def add_data(parser):
        group = parser.add_argument_group("data")
        group.add_argument("--global-batch-size", type=int, default=8, help="of the host")
        return parser

    def add_balance(parser):
        group = parser.add_argument_group("scheduler").add_mutually_exclusive_group()
        group.add_argument("--balance-data", action="store_true", help="of the host")
        group.add_argument("--balance-by-flops", action="store_true", help="of the host")
        parser.add_argument("--spread", dest="on_leftover", default="spread", help="of the host")
        return parser

    return add_balance(add_data(parser))


class TestEitherOrder:
    """Hosts call extension hooks first, or last."""

    @pytest.fixture(params=["host first", "host last", "host between"])
    def parser(self, request):
        parser = argparse.ArgumentParser(allow_abbrev=False)
        if request.param != "host last":
            megatron_style(parser)
        if request.param != "host first":
            add_balance_arguments(parser)
        if request.param == "host last":
            megatron_style(parser)
        return parser if request.param == "host last" else add_balance_arguments(parser)

    def test_the_definition_of_the_host_wins(self, parser):
        args = parser.parse_args(["--balance-data", "--on-oversize", "drop"])
        assert (args.balance_data, args.global_batch_size, args.on_leftover, args.on_oversize) == (
            *(True, 8, "spread"),
            "drop",
        )
        assert set(vars(args)) == set(vars(parse()))
        with pytest.raises(SystemExit):
            parser.parse_args(["--balance-data", "--balance-by-flops"])

    def test_help_shows_every_option_once(self, parser):
        text = parser.format_help()
        options = text[text.index("options:") :]
        shown = re.findall(r"^  (--[\w-]+)", options, re.MULTILINE)
        assert len(shown) == len(set(shown))
        assert {*shown} - {"--spread"} == {*FLAGS} - {"--on-leftover"}
        assert options.count("of the host") == 4
        assert parser.format_usage().count("--on-oversize") == 1

    @pytest.mark.parametrize(
        "parse_flags",
        ["parse_known_args", "parse_known_intermixed_args"],
    )
    def test_unknown_options_are_left_over(self, parser, parse_flags):
        args, rest = getattr(parser, parse_flags)(["--flops-model", "exact", "--lr", "1"])
        assert (args.flops_model, rest) == ("exact", ["--lr", "1"])
        assert parser.parse_args(["--on-shortage", "repeat"]).on_shortage == "repeat"

    def test_copies_stand_by_themselves(self, parser):
        other = copy.deepcopy(parser)
        other.add_argument("--flops-model", default="other")
        assert other.parse_args([]).flops_model == "other"
        assert parser.parse_args([]).flops_model == "published"

    def test_conflicts_of_the_host_with_itself_are_its_own(self, parser):
        with pytest.raises(argparse.ArgumentError, match="--global-batch-size"):
            parser.add_argument("--global-batch-size")


class TestAfterAFirstLook:
    """Hosts that read a few arguments, or what a parser has, before they add all options."""

    @pytest.mark.parametrize(
        "look",
        [
            lambda parser: parser.parse_known_args([]),
            lambda parser: parser.parse_args(["--balance-data"]),
            lambda parser: parser.format_help(),
            lambda parser: parser.format_usage(),
            lambda parser: copy.deepcopy(parser).parse_args([]),
            lambda parser: argparse.ArgumentParser(parents=[parser], add_help=False),
        ],
        ids=["parse_known_args", "parse_args", "format_help", "format_usage", "deepcopy", "parents"],
    )
    @pytest.mark.parametrize("place", ["parser", "old group", "new group", "exclusive group", "group in a group"])
    @pytest.mark.parametrize("handler", ["error", "resolve"])
    def test_the_host_adds_its_own(self, look, place, handler):
        parser = argparse.ArgumentParser(conflict_handler=handler)
        old = parser.add_argument_group("old")
        add_balance_arguments(parser)
        look(parser)
        container = {
            "parser": lambda: parser,
            "old group": lambda: old,
            "new group": lambda: parser.add_argument_group("new"),
            "exclusive group": lambda: parser.add_mutually_exclusive_group(),
            "group in a group": lambda: old.add_mutually_exclusive_group(),
        }[place]()
        container.add_argument("--balance-data", default="host", help="of the host")
        container.add_argument("--spread", dest="on_leftover", default="spread", help="of the host")
        args = parser.parse_args([])
        assert (args.balance_data, args.on_leftover) == ("host", "spread")
        assert set(vars(args)) == set(vars(parse()))
        text = parser.format_help()
        assert text.count("of the host") == 2
        assert "--on-leftover" not in text

    def test_a_conflict_of_the_host_with_itself_is_its_own(self):
        parser = add_balance_arguments(argparse.ArgumentParser())
        parser.parse_known_args([])
        parser.add_argument("--balance-data")
        with pytest.raises(argparse.ArgumentError, match="--balance-data"):
            parser.add_argument("--balance-data")

    def test_the_options_are_there_at_once(self):
        parser = add_balance_arguments(argparse.ArgumentParser())
        assert parser.get_default("balance_objective") == "step"
        assert {action.dest for action in parser._actions} == {"help", *vars(parse())}

    def test_a_default_that_is_set_after_a_first_look_stands(self):
        parser = add_balance_arguments(argparse.ArgumentParser())
        parser.parse_known_args([])
        parser.set_defaults(on_leftover="error")
        assert parser.parse_args([]).on_leftover == "error"

    def test_children_have_the_options_of_their_parents(self):
        parent = add_balance_arguments(argparse.ArgumentParser(add_help=False))
        assert vars(argparse.ArgumentParser(parents=[parent]).parse_args([])) == vars(parse())
        child = add_balance_arguments(argparse.ArgumentParser(parents=[parent]))
        child.add_argument("--balance-data", default="host")
        assert child.parse_args([]).balance_data == "host"
        assert parent.parse_args([]).balance_data is False
        parent.add_argument("--on-leftover", default="host")
        assert (parent.parse_args([]).on_leftover, child.parse_args([]).on_leftover) == ("host", "drop")


def test_a_command_of_several_has_the_options_too():
    parser = argparse.ArgumentParser()
    command = parser.add_subparsers(dest="command").add_parser("train")
    add_balance_arguments(command).add_argument("--on-leftover", default="host")
    args = parser.parse_args(["train", "--balance-within-cap"])
    assert (args.balance_within_cap, args.on_leftover, args.on_oversize) == (True, "host", "alone")


def test_only_what_no_trainer_has():
    parser = add_balance_arguments(argparse.ArgumentParser(), only_new=True)
    parser.add_argument("--balance-data", action="store_true")
    new = {"balance_within_cap", "balance_objective", "micro_batch_overhead", "flops_model"}
    new |= {"micro_batches_per_rank", "min_micro_batches_per_rank"}
    assert set(vars(parser.parse_args([]))) == {"balance_data", *new, "on_leftover", "on_oversize", "on_shortage"}


def test_what_is_no_parser_is_refused():
    with pytest.raises(ValueError, match=r"parser must be an argparse.ArgumentParser, got <argparse._ArgumentGroup"):
        add_balance_arguments(argparse.ArgumentParser().add_argument_group("host"))


def test_mappings_are_checked_and_completed_as_namespaces_are():
    given = {"balance_by_flops": True, "use_dynamic_batch_size": True, "max_tokens_per_gpu": 7}
    args = dict(given)
    assert validate_balance_args(args) is args
    assert args == {**given, "balance_data": True, "log_probs_max_tokens_per_gpu": 7}
    with pytest.raises(ValueError, match=r"^--balance-by-flops needs --use-dynamic-batch-size$"):
        validate_balance_args({"balance_by_flops": True})


@pytest.mark.parametrize("cost", ["qwen3-8b", PublishedFlops(load_shape("qwen3-8b")), None, "published", "exact"])
def test_costs_that_are_there_at_launch(cost):
    assert validate_balance_args({"flops_model": cost}) == {"flops_model": cost}


def test_what_cannot_be_changed_is_refused_where_something_follows():
    @dataclasses.dataclass(frozen=True)
    class Frozen:
        balance_by_flops: bool = True
        use_dynamic_batch_size: bool = True
        max_tokens_per_gpu: int = 7

    for args in (MappingProxyType(vars(Frozen())), Frozen()):
        with pytest.raises(ValueError, match=r"^args must let balance_data be set, to True, got "):
            validate_balance_args(args)
    nothing = MappingProxyType({"use_dynamic_batch_size": False})
    assert validate_balance_args(nothing) is nothing


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
