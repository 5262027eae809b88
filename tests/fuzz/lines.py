"""Writes calls: a seed and a number give a line, the same on every machine.

Most arguments are such as people have, some lie on an edge, and one in a dozen is hostile. Each function here takes the
random numbers and returns source text.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from random import Random

HOSTILE_NUMBERS = (
    *("0", "-1", "True", "None", "1.0", "2.5", "'3'", "nan", "inf", "-inf", "1e308", "[1]", "b'1'", "np.int64(3)"),
    *("np.uint8(2)", "np.float64(2)", "np.array(3)", "np.array([3])", "np.bool_(True)", "Decimal(2)", "Fraction(5, 2)"),
    *map(str, (2**31, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, 2**64, 2**70, 10**8, 10**12, 10**30, -(2**63))),
)
HOSTILE_ITEMS = (
    *("-1", "True", "None", "2.5", "1.0", "nan", "inf", "'3'", "[1]", "b'1'", "Decimal(2)", "np.int8(3)", "1e300"),
    *map(str, (2**31, 2**53, 2**53 + 1, 2**62, 2**63 - 1, 2**63, 2**64, 2**100, 2**127, 2**128)),
)
HOSTILE_SEQUENCES = (
    *("None", "[]", "()", "3", "'12'", "b'12'", "{}", "{1: 2}", "{1, 2}", "[[1, 2]]", "[[1, 2], [3]]", "range(5)"),
    *("iter([1, 2])", "np.array(5)", "np.zeros((2, 2))", "np.zeros((0, 2))", "np.array([True, False])", "['1', '2']"),
    *("np.array(['a', 'b'])", "np.array([1j, 2])", "np.array([1, 2], 'M8[s]')", "np.array([1, 2], 'm8[s]')"),
    *("np.array([(1, 2)], 'i4,i4')", "np.ma.array([1, 2, 3], mask=[0, 1, 0])", "Foreign('KeyError')", "object()"),
    *("Foreign('RuntimeError')", "Foreign('TypeError')", "int", "np.array([None, 1])", "memoryview(b'abc')"),
    *("np.array([1.5, 2])", "np.array([nan, 1])", "np.array([-1, 2])", "np.array([2**53, 1.0])", "Tensor([[1], [2]])"),
)
HOSTILE_LISTS = ("[0, 0]", "[9]", "[[]]", "[[0], [0]]")
KINDS = (
    *("{}",) * 12,
    *("np.array({})",) * 4,
    *("np.array({}, np.int32)", "np.array({}, np.int16)", "np.array({}, np.uint8)", "np.array({}, np.uint64)"),
    *("np.array({}, np.float64)", "np.array({}, np.float32)", "np.array({}, np.float16)", "np.array({}, object)"),
    *("np.array({}, '>i8')", "np.array({}, np.longdouble)", "Tensor({})", "spaced({})", "tuple({})"),
    "list(map(float, {}))",
)  # fmt: skip
FLOAT_KINDS = (*("{}",) * 4, "np.array({})", "np.array({}, np.float32)", "Tensor({})", "spaced({})", "tuple({})")


def one_in(r: Random, times: int) -> bool:
    return r.randrange(times) == 0


def pick(r: Random, options: Sequence[str]) -> str:
    return options[r.randrange(len(options))]


def number(r: Random, low: int, high: int) -> str:
    """Return a count, nearly always from a range."""
    return pick(r, HOSTILE_NUMBERS) if one_in(r, 40) else str(r.randint(low, high))


def size(r: Random) -> int:
    """Return how many samples: few as a rule, since faults show there and plain Python checks them."""
    return r.randint(*r.choice(((0, 4), (1, 12), (1, 12), (1, 12), (1, 40), (1, 40), (20, 300))))


def whole(r: Random, n: int) -> list[int]:
    """Return whole numbers of one of the shapes that lengths come in."""
    top = r.choice((3, 12, 100, 100, 1000, 40_000))
    shape = r.randrange(9)
    if shape == 0:
        return [r.randint(0, top)] * n
    if shape == 1:
        pair = (r.randint(0, top), r.randint(0, top))
        return [r.choice(pair) for _ in range(n)]
    if shape == 2:
        return [min(int(r.lognormvariate(4, 1.5)), 10**6) for _ in range(n)]
    if shape == 3:
        return [2 ** r.randint(0, 12) for _ in range(n)]
    if shape == 4:
        return sorted((r.randint(0, top) for _ in range(n)), reverse=one_in(r, 2))
    if shape == 5 and n:
        values = [r.randint(0, 9) for _ in range(n)]
        values[r.randrange(n)] = top * n
        return values
    if shape == 6 and n and one_in(r, 6):
        return [r.choice((2**53, 2**62 // n, 2**63 // n, 2**40)) + r.randint(-2, 2) for _ in range(n)]
    return [r.randint(0, top) for _ in range(n)]


def real(r: Random, n: int) -> list[float]:
    shape = r.randrange(5)
    if shape == 0:
        return [r.randint(0, 40) / 8 for _ in range(n)]
    if shape == 1:
        return [r.lognormvariate(0, 12) for _ in range(n)]
    if shape == 2:
        return [float(r.randint(0, 2**60)) for _ in range(n)]
    if shape == 3:
        return [r.choice((0.1, 0.2, 0.3, 0.0, 1e-300, 1e300)) for _ in range(n)]
    return [r.random() for _ in range(n)]


def dressed(r: Random, values: Sequence[object], kinds: Sequence[str] = KINDS) -> str:
    """Return values in one of the types that hold them, one item in a few dozen lists hostile."""
    items = [repr(value) for value in values]
    if items and one_in(r, 30):
        items[r.randrange(len(items))] = pick(r, HOSTILE_ITEMS)
    return pick(r, kinds).format(f"[{', '.join(items)}]")


def lengths(r: Random, n: int) -> str:
    return pick(r, HOSTILE_SEQUENCES) if one_in(r, 30) else dressed(r, whole(r, n))


def weights(r: Random, n: int) -> str:
    """Return costs of samples: whole, real, or large."""
    if one_in(r, 25):
        return pick(r, HOSTILE_SEQUENCES)
    if one_in(r, 3):
        return dressed(r, real(r, n), FLOAT_KINDS)
    if one_in(r, 12):
        return dressed(r, [r.getrandbits(r.choice((63, 64, 100, 120, 127))) for _ in range(n)], ("{}",))
    return dressed(r, whole(r, n))


def call(name: str, *positional: str | None, **named: str | None) -> str:
    """Return a call; None leaves an argument out."""
    arguments = [value for value in positional if value is not None]
    arguments += [f"{key}={value}" for key, value in named.items() if value is not None]
    return f"{name}({', '.join(arguments)})"


# -- published functions ---------------------------------------------------------------------------------------------


def partition(r: Random) -> str:
    n = size(r)
    sizes = pick(r, ("True", "False", "'bounded'", "'refined'", *(("1", "None", "'equal'") if one_in(r, 20) else ())))
    parts = r.randint(1, max(1, n))
    if sizes in ("True", "'refined'") and n and not one_in(r, 8):
        parts = r.choice([k for k in range(1, n + 1) if n % k == 0])
    function = pick(r, ("get_seqlen_balanced_partitions", "karmarkar_karp"))
    return call(function, weights(r, n), number(r, parts, parts), sizes)


def first_fit(r: Random) -> str:
    return call("first_fit_pack", lengths(r, size(r)), number(r, 1, r.choice((5, 100, 5000, 2**63 - 1))))


def pack(r: Random) -> str:
    n = size(r)
    order = pick(r, ("'given'", "'decreasing'", "'balanced'", *(("'fit'", "None") if one_in(r, 20) else ())))
    return call(
        "pack",
        lengths(r, n),
        number(r, 1, r.choice((5, 100, 5000, 2**63 - 1))),
        order=order if one_in(r, 2) else None,
        max_samples=number(r, 1, 6) if one_in(r, 3) else None,
        at_least=number(r, 1, 1 + n // 2) if one_in(r, 3) else None,
        multiple=number(r, 1, 4) if one_in(r, 3) else None,
        count=number(r, 1, 1 + n) if one_in(r, 3) else None,
        costs=weights(r, n) if order == "'balanced'" and one_in(r, 2) else None,
    )


def splitting(r: Random) -> str:
    n = size(r)
    items = list(range(n))
    r.shuffle(items)
    bins: list[list[int]] = []
    while items:
        take = r.randint(1, r.choice((1, 4, 40)))
        bins.append(items[:take])
        del items[:take]
    text = repr(bins)
    if one_in(r, 15):
        text = pick(
            r, ("[[0, 0, 0]]", "[[0], [0]]", "[[9]]", "[[-1]]", "[[], [0]]", "[]", "None", "[0]", "[(0, 1)]", "[['0']]")
        )
    return call("split", text, number(r, 0, 2 * n + 2), lengths(r, n))


def inverse(r: Random) -> str:
    items = list(range(size(r)))
    r.shuffle(items)
    if items and one_in(r, 8):
        items[r.randrange(len(items))] = r.randint(-2, 20)
    return call("get_reverse_idx", pick(r, HOSTILE_SEQUENCES) if one_in(r, 15) else dressed(r, items))


def model_fields(r: Random) -> dict[str, object]:
    """Return a trainer's arguments of a model: dense, with experts, with latent attention, now and then damaged."""
    fields: dict[str, object] = {
        "num_layers": r.randint(1, 8),
        "hidden_size": 2 ** r.randint(3, 13),
        "num_attention_heads": 2 ** r.randint(1, 5),
        "num_query_groups": 2,
        "kv_channels": 2 ** r.randint(2, 7),
        "ffn_hidden_size": r.randint(1, 20_000),
        "vocab_size": r.randint(1, 200_000),
        "num_experts": None,
    }
    if one_in(r, 3):
        layers = int(str(fields["num_layers"]))
        frequency = r.choice((1, 2, [r.randint(0, 1) for _ in range(layers)], None))
        fields |= {"num_experts": 8, "moe_ffn_hidden_size": r.randint(1, 5000), "moe_router_topk": r.randint(1, 8)}
        fields |= {"moe_shared_expert_intermediate_size": r.choice((None, 0, 512))}
        fields |= {} if frequency is None else {"moe_layer_freq": frequency}
    if one_in(r, 3):
        fields |= {
            "multi_latent_attention": True,
            "q_lora_rank": r.choice((None, 16)),
            "qk_head_dim": 8,
            "v_head_dim": 8,
        }
        fields |= {"kv_lora_rank": r.choice((None, 32)), "qk_pos_emb_head_dim": 4}
    return fields


def damaged(r: Random, fields: dict[str, object]) -> dict[str, str]:
    """Return fields as source text, one in a dozen dictionaries with a hostile value or without a field."""
    text = {name: repr(value) for name, value in fields.items()}
    if one_in(r, 12):
        name = r.choice(list(text))
        if one_in(r, 3):
            del text[name]
        else:
            text[name] = pick(r, (*HOSTILE_NUMBERS, *HOSTILE_SEQUENCES))
    return text


def namespace(r: Random, fields: dict[str, object]) -> str:
    return call(pick(r, ("dict", "Namespace")), **damaged(r, fields))


def published_flops(r: Random) -> str:
    if one_in(r, 2):
        return call("calculate_fwd_flops", lengths(r, r.randint(0, 12)), namespace(r, model_fields(r)))
    method = pick(r, ("flops", "terms"))
    return call(f"PublishedFlops({namespace(r, model_fields(r))}).{method}", lengths(r, r.randint(0, 12)))


def dp_schedule(r: Random) -> str:
    n = size(r)
    fields = model_fields(r) | {"micro_batch_size": r.randint(1, 3), "balance_data": one_in(r, 2)}
    if not one_in(r, 4):
        fields |= {"use_dynamic_batch_size": True, "max_tokens_per_gpu": r.randint(1, 300)}
        if one_in(r, 3):
            fields |= {"balance_by_flops": True, "balance_data": not one_in(r, 4)}
    else:
        fields |= {"use_dynamic_batch_size": False, "balance_by_flops": False}
    if one_in(r, 4):
        fields |= {"balance_within_cap": True, "balance_objective": r.choice(("step", "micro-batch", "pipeline"))}
        fields |= {"pipeline_model_parallel_size": r.randint(1, 4)}
    if one_in(r, 6):
        fields |= {r.choice(("on_leftover", "on_oversize")): r.choice(("drop", "error"))}
    if one_in(r, 8):
        fields |= {"flops_model": "exact"}
    parallel: dict[str, object] = {
        "dp_size": r.randint(1, max(1, n // 2)),
        "cp_size": r.randint(1, 2),
        "vpp_size": r.choice((1, 1, 2)),
        "microbatch_group_size_per_vp_stage": r.randint(1, 2),
    }
    rollouts = [r.randrange(max(1, n // r.choice((1, 1, 2)))) for _ in range(n)] if one_in(r, 2) else list(range(n))
    return call(
        "build_dp_schedule",
        namespace(r, fields),
        namespace(r, parallel),
        lengths(r, n),
        global_batch_size=number(r, 1, max(1, len(set(rollouts)))),
        rollout_indices=dressed(r, rollouts),
    )


# -- planning --------------------------------------------------------------------------------------------------------


def plan(r: Random) -> str:
    n = size(r)
    packing = pick(r, ("first-fit", "flops", "fixed", "capped", "capped", "capped"))
    objective = pick(r, ("step", "micro-batch", "pipeline"))
    ranks = r.randint(1, max(1, r.choice((n // 3, n // 2, n))))
    options: dict[str, str | None] = {
        "costs": weights(r, n) if one_in(r, 2) else None if one_in(r, 2) else cost(r),
        "dp_size": number(r, ranks, ranks),
        "max_tokens": number(r, 1, r.choice((20, 300, 5000, 50_000, 2**63 - 1))),
        "packing": repr(packing),
    }
    if packing == "fixed":
        options |= {"micro_batch_size": number(r, 1, 4)}
        options["max_tokens"] = None
    if one_in(r, 3):
        options["rollout_ids"] = dressed(r, [r.randrange(-1, max(1, n // 2)) for _ in range(n)])
    if one_in(r, 2):
        options["global_batch_size"] = number(r, 1, max(1, r.choice((n, n // 2, n // 4))))
    if one_in(r, 6):
        options["micro_batch_multiple"] = number(r, 1, 3)
    if one_in(r, 4):
        options["on_leftover"] = pick(r, ("'drop'", "'partial'", "'error'"))
    if one_in(r, 8) and packing != "capped":
        options["balance_ranks"] = "False"
    if packing != "fixed":
        if one_in(r, 4):
            options["on_oversize"] = pick(r, ("'alone'", "'drop'", "'error'"))
        if one_in(r, 6):
            multiple = number(r, 1, 16)
            options["pad_to"] = multiple if one_in(r, 2) else f"({multiple}, {number(r, 1, 64)})"
    if packing == "capped":
        options["objective"] = repr(objective)
        if objective == "pipeline" or (objective == "micro-batch" and one_in(r, 4)):
            options["pipeline_stages"] = number(r, 1, 8)
        if one_in(r, 4):
            options["micro_batch_overhead"] = pick(r, ("0", "0.5", "3", "1e6", "1.7e308", *HOSTILE_NUMBERS[:12]))
        if one_in(r, 4):
            options["effort"] = pick(r, ("0", "1", "16", "128", "1000", *HOSTILE_NUMBERS[:4]))
        if one_in(r, 5):
            options["padded"] = "True"
        if one_in(r, 5):
            options["extra_budget"] = f"({lengths(r, n)}, {number(r, 0, r.choice((5, 300, 50_000)))})"
        if one_in(r, 5):
            options["max_samples"] = number(r, 1, 6)
        if one_in(r, 3):
            options["on_shortage"] = pick(r, ("'repeat'", "'repeat'", "'error'"))
        if one_in(r, 5):
            options["carried"] = weights(r, ranks)
    in_structures(r, options)
    if one_in(r, 60):
        options[r.choice(list(options))] = pick(r, (*HOSTILE_NUMBERS, *HOSTILE_SEQUENCES))
    return call("plan", lengths(r, n), **options)


def in_structures(r: Random, options: dict[str, str | None]) -> None:
    """Put some arguments into the structures that hold them, or beside them, and ask for numbers of micro-batches."""
    if one_in(r, 8) and options["max_tokens"] is not None:
        of_limits = ("max_tokens", "pad_to", "padded", "extra_budget", "max_samples", "on_oversize")
        options["limits"] = call("Limits", **{name: options.pop(name, None) for name in of_limits})
    if one_in(r, 4):
        counts = {
            "exactly": number(r, 1, 6) if one_in(r, 2) else None,
            "at_least": number(r, 1, 4) if one_in(r, 2) else None,
            "even_samples": "True" if one_in(r, 2) else None,
            "multiple": options.get("micro_batch_multiple")
            if one_in(r, 9)
            else options.pop("micro_batch_multiple", None),
        }
        options["counts"] = call("Counts", **counts)
    if one_in(r, 4) and "pipeline_stages" in options:
        stages = options["pipeline_stages"] if one_in(r, 9) else options.pop("pipeline_stages")
        chunks = number(r, 1, 3) if one_in(r, 2) else None
        options["pipeline"] = call("Pipeline", stages, chunks=chunks, group=number(r, 1, 9) if one_in(r, 4) else None)


def large_plan(r: Random) -> str:
    """Return a plan of many samples of few lengths, where a method that is not linear shows."""
    n = r.choice((2_000, 10_000, 30_000))
    values = ", ".join(map(str, whole(r, r.choice((1, 2, 2, 5, 50)))))
    packing = pick(r, ("'first-fit'", "'flops'", "'capped'", "'capped'", "'capped'"))
    ranks = r.choice((1, 8, 64, n // 16, n // 2, n * 6 // 7, n))
    options: dict[str, str | None] = {
        "dp_size": str(ranks),
        "max_tokens": str(r.choice((100, 1000, 10**6, 10**9, 2**62))),
    }
    options |= {"packing": packing, "costs": f"many({n}, {values}) ** 2" if one_in(r, 2) else None}
    if packing == "'capped'":
        options["objective"] = pick(r, ("'step'", "'micro-batch'", "'pipeline'"))
        options["padded"] = "True" if one_in(r, 4) else None
        options["extra_budget"] = f"(many({n}, {values})[::-1], 1000)" if one_in(r, 4) else None
        options["max_samples"] = str(r.choice((1, 2, 9, 1000))) if one_in(r, 4) else None
        options["on_shortage"] = "'repeat'" if one_in(r, 2) else None
    return call("plan", f"many({n}, {values})", **options)


def small_plan(r: Random) -> tuple[str, str, int]:
    """Return a plan that there is, the lengths of it, and its cap."""
    n, cap, ranks = r.randint(1, 14), r.randint(20, 120), r.randint(1, 3)
    tokens = [r.randint(0, 60) for _ in range(max(n, ranks))]
    packing = pick(r, ("'first-fit'", "'flops'", "'capped'"))
    steps = str(r.randint(ranks, len(tokens))) if one_in(r, 2) else None
    repeat = "'repeat'" if packing == "'capped'" and one_in(r, 3) else None
    text = call(
        "plan",
        repr(tokens),
        dp_size=str(ranks),
        max_tokens=str(cap),
        packing=packing,
        global_batch_size=steps,
        on_shortage=repeat,
    )
    return text, repr(tokens), cap


def feasible(r: Random) -> str:
    def perhaps(text: str, times: int = 2) -> str | None:
        return text if one_in(r, times) else None

    return call(
        "check_feasible",
        global_batch_size=number(r, 1, 40),
        dp_size=number(r, 1, 8),
        max_tokens=perhaps(number(r, 1, 50)),
        longest=perhaps(number(r, 1, 60)),
        micro_batch_size=perhaps(number(r, 1, 4), 3),
        micro_batch_multiple=perhaps(number(r, 1, 3), 4),
        samples_per_rollout=perhaps(number(r, 1, 4), 4),
        num_rollouts=perhaps(number(r, 1, 90)),
        on_leftover=perhaps(pick(r, ("'drop'", "'partial'", "'error'"))),
        on_oversize=perhaps(pick(r, ("'alone'", "'drop'", "'error'")), 4),
        on_shortage=perhaps(pick(r, ("'error'", "'repeat'", "'no'")), 4),
    )


# -- schedules -------------------------------------------------------------------------------------------------------


def schedule_method(r: Random) -> str:
    text, tokens, _ = small_plan(r)
    if one_in(r, 3):
        loads = weights(r, r.randint(1, 3)) if one_in(r, 2) else None
        costs = cost(r) if one_in(r, 4) else weights(r, tokens.count(",") + 1)
        return f"{text}.{call('rank_loads', costs, tokens if one_in(r, 2) else None, carried=loads)}"
    rank = f"rank({number(r, 0, 3)})"
    use = pick(r, ("to_lists()", "inverse()", rank, f"{rank}.steps()", "_repr_html_()", "__repr__()", "__hash__()"))
    return f"{text}.{use}"


def parts(r: Random, items: list[int], count: int) -> list[list[int]]:
    """Return items cut into so many parts, none of them empty."""
    cuts = [0, *sorted(r.sample(range(1, len(items)), count - 1)), len(items)]
    return [items[start:end] for start, end in itertools.pairwise(cuts)]


def partitions(r: Random) -> tuple[list[list[int]], int, int]:
    """Return the samples of every rank, the fewest that a rank has, and how many there are, dropped ones included."""
    fewest, ranks = r.randint(1, 4), r.randint(1, 3)
    n = ranks * fewest + r.randint(0, 9)
    samples = r.sample(range(n), n - r.choice((0, 0, min(2, n - ranks * fewest))))
    of_ranks = [samples[rank * fewest : (rank + 1) * fewest] for rank in range(ranks)]
    for sample in samples[ranks * fewest :]:
        of_ranks[r.randrange(ranks)].append(sample)
    return of_ranks, fewest, n


def hostile(r: Random, nested: list[object]) -> str:
    """Return nested lists as source text, one in a dozen with a hostile part."""
    if not one_in(r, 12):
        return repr(nested)
    texts = [repr(one) for one in nested]
    texts[r.randrange(len(texts))] = pick(r, (*HOSTILE_SEQUENCES, *HOSTILE_ITEMS, *HOSTILE_LISTS))
    return pick(r, ("[{}]", "[{}]", "({},)", "{}")).format(", ".join(texts))


def lists(r: Random) -> str:
    """Return a call of `Schedule.from_lists`."""
    of_ranks, fewest, n = partitions(r)
    per_rank = r.randint(1, fewest)
    positions = [parts(r, r.sample(range(len(one)), len(one)), per_rank) for one in of_ranks]
    steps = [len(part) for part in parts(r, list(range(per_rank)), r.randint(1, per_rank))]
    return call(
        "Schedule.from_lists",
        hostile(r, of_ranks),
        hostile(r, positions),
        dressed(r, steps),
        dressed(r, [1] * len(steps)) if one_in(r, 2) else None,
        lengths=lengths(r, n),
    )


def log_probs(r: Random) -> str:
    of_ranks, _, n = partitions(r)
    fields: dict[str, object] = {"use_dynamic_batch_size": True, "max_tokens_per_gpu": r.randint(1, 300)}
    if one_in(r, 2):
        fields |= {"log_probs_max_tokens_per_gpu": r.choice((None, r.randint(1, 5000)))}
    parallel: dict[str, object] = {"cp_size": r.randint(1, 2), "vpp_size": r.choice((1, 1, 2))}
    parallel |= {"microbatch_group_size_per_vp_stage": r.randint(1, 2)}
    return call(
        "build_log_probs_schedule", namespace(r, fields), namespace(r, parallel), lengths(r, n), hostile(r, of_ranks)
    )


def hand_made_schedule(r: Random) -> str:
    """Return a use of a schedule or of a view that was made by hand, or loaded, nearly right."""
    ranks, per_rank = r.randint(1, 2), r.randint(1, 3)
    count = ranks * per_rank
    samples = list(range(count + r.randint(0, 3)))
    cuts = sorted(r.sample(range(1, len(samples)), count - 1)) if count > 1 else []
    fields = {
        "dp_size": str(ranks),
        "num_samples": str(len(samples)),
        "samples": f"np.array({samples})",
        "micro_batch_offsets": f"np.array({[0, *cuts, len(samples)]})",
        "micro_batch_tokens": f"np.array({[r.randint(0, 9) for _ in range(count)]})",
        "micro_batches_per_step": f"np.array({[per_rank] if one_in(r, 2) else [1] * per_rank})",
        "rollouts_per_step": f"np.array({[1] * per_rank})",
        "dropped": "np.array([], np.int64)",
        "is_padding": f"np.array({[False] * len(samples)})",
    }
    if fields["micro_batches_per_step"] == f"np.array([{per_rank}])":
        fields["rollouts_per_step"] = "np.array([1])"
    for _ in range(r.randint(0, 2)):
        name = r.choice(list(fields))
        hostile = (
            "np.array([], np.int64)",
            "np.array([0, 9])",
            "np.array([-1])",
            f"np.array([{2**62}] * 4)",
            f"np.array([{2**63 - 1}, 3])",
        )
        fields[name] = pick(r, (*hostile, *HOSTILE_NUMBERS, *HOSTILE_SEQUENCES))
    if one_in(r, 2):
        fields = {"version": "1", **fields}
        return f"Schedule.load({call('archive', **fields)})"
    if one_in(r, 4):
        for name in ("dp_size", "num_samples", "dropped"):
            del fields[name]
        use = pick(r, ("steps()", "sample_counts", "__repr__()", "__hash__()"))
        return f"{call('RankSchedule', rank=number(r, 0, 1), **fields)}.{use}"
    use = pick(
        r, ("to_lists()", "inverse()", "rank(0)", "step_tokens", "step_samples", "save('made.npz')", "__repr__()")
    )
    return f"{call('Schedule', **fields)}.{use}"


def edits(r: Random) -> str:
    """Return the changes of a damaged file."""
    parts = []
    for _ in range(r.randint(1, 3)):
        there = bytes(r.randrange(256) for _ in range(r.randint(0, 4)))
        length = r.choice((0, 1, 1, 4, 1000))
        parts.append(f"({r.randrange(4000)}, {length}, {pick(r, (repr(there), repr(b'0'), repr(b'9' * 9)))})")
    return ", ".join(parts)


def damaged_schedule(r: Random) -> str:
    text, _, _ = small_plan(r)
    return f"Schedule.load(edited(saved({text}), {edits(r)}))"


# -- costs -----------------------------------------------------------------------------------------------------------


def cost_model(r: Random) -> str:
    top = 10 ** r.choice((1, 3, 9, 12))
    windows = " ".join(f"({number(r, 1, 300)}, {number(r, 0, top)})," for _ in range(r.choice((0, 0, 1, 2))))
    return call(
        "CostModel",
        per_token=number(r, 0, top),
        lm_head=number(r, 0, top) if one_in(r, 2) else None,
        per_pair=number(r, 0, top) if one_in(r, 2) else None,
        windows=f"({windows})" if windows else None,
    )


def fitted_cost(r: Random) -> str:
    amounts = ("0.0", "1.0", "0.25", "1e-9", "3.5e-4", "1e308", *HOSTILE_NUMBERS[:10])
    return call(
        "FittedCost",
        *(pick(r, amounts[:5] if one_in(r, 2) else amounts) for _ in range(3)),
        per_sequence=pick(r, amounts) if one_in(r, 3) else None,
        windows=f"(({number(r, 1, 300)}, {number(r, 0, 9)}),)" if one_in(r, 4) else None,
    )


def cost(r: Random) -> str:
    return cost_model(r) if one_in(r, 2) else fitted_cost(r)


def cost_method(r: Random) -> str:
    n = size(r)
    if one_in(r, 3):
        use = pick(
            r, (f"flops({lengths(r, n)})", "describe()", "overtaking_length", f"predict([{lengths(r, 3)}, [4]])")
        )
        return f"{fitted_cost(r)}.{use}"
    phase = pick(r, ("'train'", "'forward'", "'no'"))
    recompute = pick(r, ("'none'", "'full'", "'selective'", "[]"))
    use = pick(
        r,
        (
            *(f"flops({lengths(r, n)})", f"total_flops({lengths(r, n)})", "describe()", "overtaking_length"),
            f"weights({lengths(r, n)}, phase={phase}, recompute={recompute})",
        ),
    )
    return f"{cost_model(r)}.{use}"


NAMES = ("qwen3-8b", "Qwen3-8B", "deepseek-v3", "gpt-oss-20b", "llama3-8b", "qwen", "", "../x", "nothing")
HF = {
    "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 64,
    "vocab_size": 32,
}  # fmt: skip


def model_reader(r: Random) -> str:
    mtp = number(r, 0, 2) if one_in(r, 4) else None
    rows = number(r, 32, 300_000) if one_in(r, 4) else None
    kind = r.randrange(4)
    if kind == 0:
        return call("CostModel.from_name", repr(pick(r, NAMES)), mtp_layers=mtp, padded_vocab_size=rows)
    if kind == 1:
        return call("CostModel.from_args", namespace(r, model_fields(r)), mtp_layers=mtp, padded_vocab_size=rows)
    if kind == 2:
        return call(
            "select_flops_model", namespace(r, model_fields(r)), pick(r, ("'published'", "'exact'", "'no'", "1"))
        )
    fields: dict[str, object] = {
        **HF,
        "model_type": r.choice(("llama", "qwen3", "qwen3_moe", "gemma3_text", "deepseek_v3")),
    }
    if one_in(r, 2):
        fields |= {"num_key_value_heads": 1, "head_dim": 8, "sliding_window": r.choice((None, 4)), "layer_types": None}
    if one_in(r, 3):
        fields |= {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "n_routed_experts": 4}
        fields |= {
            "q_lora_rank": None,
            "kv_lora_rank": 8,
            "qk_nope_head_dim": 4,
            "qk_rope_head_dim": 4,
            "v_head_dim": 4,
        }
    return call("CostModel.from_hf_config", call("dict", **damaged(r, fields)), mtp_layers=mtp)


def saved_cost(r: Random) -> str:
    path = f"saved({cost(r)})"
    if one_in(r, 2):
        path = f"edited({path}, {edits(r)})"
    if one_in(r, 6):
        values = json.dumps(
            {
                "flopbalance_cost": r.choice(("exact", "fitted", "x", 3)),
                "per_token": 1,
                "windows": [[4, r.choice((1, "x", None))]],
            }
        )
        path = f"file({values!r}, '.json')"
    return call(pick(r, ("load_cost", "read_cost")), path)


def measurements(r: Random) -> tuple[str, str]:
    """Return micro-batches and their times."""
    batches = [[r.randint(1, 3000) for _ in range(r.randint(1, 5))] for _ in range(r.choice((1, 2, 12, 20, 40)))]
    seconds = [
        float(f"{(0.01 + sum(2e-4 * n + 1e-7 * n * n for n in batch)) * r.uniform(0.9, 1.1):.3g}") for batch in batches
    ]
    if one_in(r, 6):
        seconds[r.randrange(len(seconds))] = r.choice((0.0, -1.0, float("nan"), 1e300, 1e-300))
    return repr(batches), repr(seconds)


def calibration(r: Random) -> str:
    batches, seconds = measurements(r)
    if one_in(r, 12):
        batches = pick(r, HOSTILE_SEQUENCES)
    if one_in(r, 12):
        seconds = pick(r, HOSTILE_SEQUENCES)
    if one_in(r, 2):
        windows_of = cost_model(r) if one_in(r, 4) else None
        return call(
            "CostModel.fit", batches, seconds, windows_of=windows_of, per_sequence="True" if one_in(r, 3) else None
        )
    ranks = lengths(r, 12) if one_in(r, 5) else None
    return call("check_costs", cost(r), batches, seconds, ranks=ranks)


# -- reports ---------------------------------------------------------------------------------------------------------


def reporting(r: Random) -> str:
    text, tokens, cap = small_plan(r)
    n = tokens.count(",") + 1
    costs = weights(r, n) if one_in(r, 2) else tokens if one_in(r, 2) else cost(r)
    told = lengths(r, n) if one_in(r, 10) else tokens
    kind = r.randrange(8)
    if kind < 4:
        return call(
            "report",
            text,
            costs,
            told,
            number(r, cap, cap),
            pipeline_stages=number(r, 1, 6) if one_in(r, 3) else None,
            micro_batch_overhead=pick(r, ("0.5", "1e6", "1.7e308", *HOSTILE_NUMBERS)) if one_in(r, 3) else None,
        )
    if kind == 4:
        return f"CapWatch({number(r, 1, 100)}).check({text})"
    if kind == 5:
        indices = lengths(r, 4) if one_in(r, 3) else "[[0, 1]]"
        return f"CapWatch({number(r, 1, 100)}).check_lists({lengths(r, 3)}, [[0, 1], [2]], [{indices}, [[0]]])"
    most = number(r, cap, 2**63 - 1)
    options = call("dict", dp_size="1", max_tokens=most, packing=pick(r, ("None", "'capped'")))
    return call(
        "explain",
        text,
        costs,
        told,
        options,
        objective=pick(r, ("'step'", "'micro-batch'", "'no'")) if one_in(r, 2) else None,
    )


def pipeline(r: Random) -> str:
    stages, chunks = r.randint(1, 6), r.choice((1, 1, 2, 3))
    count = r.randint(0, 20) if chunks == 1 else stages * r.randint(1, 4)
    return call(
        "simulate_pipeline",
        weights(r, count),
        number(r, stages, stages),
        chunks=number(r, chunks, chunks) if chunks > 1 or one_in(r, 10) else None,
        group=number(r, 1, 8) if one_in(r, 8) else None,
    )


def pictures(r: Random) -> str:
    text, tokens, cap = small_plan(r)
    options = {
        "lengths": tokens if one_in(r, 2) else None,
        "max_tokens": number(r, cap, cap) if one_in(r, 2) else None,
        "step": number(r, 0, 2) if one_in(r, 3) else None,
        "objective": pick(r, ("'step'", "'micro-batch'", "'pipeline'", "'no'")) if one_in(r, 2) else None,
        "title": pick(r, ("'a'", "'$x$ \\\\ $'", "3")) if one_in(r, 4) else None,
    }
    if one_in(r, 2):
        return call("plot_schedule", text, tokens, **options)
    shown = pick(r, (f"{{'one': {text}, 'two': {text}}}", "{}", f"[{text}]"))
    return call("plot_comparison", shown, tokens, **options)


# -- files and commands ----------------------------------------------------------------------------------------------

ENDINGS = (".txt", ".csv", ".tsv", ".jsonl", ".json", ".npy", ".npz", "", ".log")
PIECES = (
    *(
        "1",
        "812",
        "4095",
        "0",
        "-3",
        "1e3",
        "1.5",
        "nan",
        "1" * 25,
        "9" * 5000,
        "a",
        '"',
        "'",
        ",",
        "\t",
        "\n",
        "\r\n",
        "\r",
    ),
    *(
        "[",
        "]",
        "{",
        "}",
        ":",
        "length",
        '"length"',
        '{"length": 5}',
        "[1, 2]",
        "null",
        "true",
        "\ufeff",
        "\x00",
        "\x1b[31m",
    ),
    *(" ", "é", "\u202e", "1_000", "\uff11", "#", "inf", "1e999999999", '{"a": [1, 2], "b": [3, 4]}'),
)


def lengths_text(r: Random, ending: str) -> str:
    """Return the text of a file, right for its ending as a rule."""
    values = whole(r, r.randint(1, 6))
    if one_in(r, 3):
        return "".join(pick(r, PIECES) for _ in range(r.randint(0, 12)))
    if ending in (".csv", ".tsv"):
        mark = "," if ending == ".csv" else "\t"
        return "\n".join([f"id{mark}length", *(f"{i}{mark}{value}" for i, value in enumerate(values))])
    if ending == ".jsonl":
        return "\n".join(pick(r, (str(v), f'{{"length": {v}, "id": "a"}}', "[5, 6, 7]")) for v in values)
    if ending == ".json":
        return pick(r, (str(values), f'{{"length": {values}}}', f'[{{"length": {values[0]}}}]'))
    return "\n".join(map(str, values))


def lengths_file(r: Random) -> str:
    ending = pick(r, ENDINGS)
    if ending == ".npy":
        path = f"array_file({lengths(r, r.randint(0, 5))})"
    elif ending == ".npz":
        path = f"archive(length={lengths(r, r.randint(0, 5))}, id=[1, 2])"
    else:
        path = f"file({lengths_text(r, ending)!r}, {ending!r})"
    if one_in(r, 3):
        path = f"edited({path}, {edits(r)})"
    if one_in(r, 5):
        path = f"zipped({path})"
        if one_in(r, 2):
            path = f"edited({path}, {edits(r)})"
    return path


def reading(r: Random) -> str:
    column = pick(r, ("'length'", "'id'", "'1'", "'no'", "3", "''")) if one_in(r, 3) else None
    rollouts = pick(r, ("'id'", "'length'", "'2'", "'no'")) if one_in(r, 4) else None
    return call("read_lengths", lengths_file(r), column=column, rollout_column=rollouts)


def timings_text(r: Random) -> str:
    rows = []
    for _ in range(r.choice((2, 12, 20))):
        batch = [r.randint(1, 3000) for _ in range(r.randint(1, 4))]
        rows.append((batch, float(f"{0.01 + sum(2e-4 * n + 1e-7 * n * n for n in batch):.3g}")))
    if one_in(r, 2):
        text = "\n".join(["lengths,seconds", *(f"{' '.join(map(str, batch))},{seconds}" for batch, seconds in rows)])
        return f"file({text!r}, '.csv')"
    return "file({!r}, '.jsonl')".format("\n".join(json.dumps({"lengths": b, "seconds": s}) for b, s in rows))


COMMAND_OPTIONS = (
    *("--balance-data", "--balance-by-flops", "--balance-within-cap", "--micro-batch-size 1", "--cp-size 2"),
    *("--on-oversize drop", "--on-leftover partial", "--on-shortage repeat", "--global-batch-size 2", "--explain"),
    *("--balance-objective pipeline", "--stages 0", "--micro-batch-overhead nan", "--dp-size x", "--out out.json"),
    *("--out out.npz", "--column id", "--rollout-column id", "--micro-batch-multiple 2", "--flops-model exact"),
)
TRAINER_OPTIONS = (
    *(
        "--balance-data",
        "--balance-by-flops",
        "--balance-within-cap",
        "--use-dynamic-batch-size",
        "--micro-batch-size 2",
    ),
    *("--max-tokens-per-gpu 9", "--log-probs-max-tokens-per-gpu 8", "--on-shortage repeat", "--micro-batch-size 0"),
    *("--balance-objective pipeline", "--micro-batch-overhead 3", "--micro-batch-overhead nan", "--flops-model exact"),
)


def words_of(r: Random, options: Sequence[str], most: int) -> list[str]:
    """Return some options as words of a command line."""
    return [repr(word) for option in r.sample(options, r.randint(0, most)) for word in option.split()]


def commanding(r: Random) -> str:
    name = pick(r, ("plan", "plan", "plan", "check", "compare", "sweep", "costs", "calibrate", "check-costs"))
    words = [repr(name)]
    if name in ("calibrate", "check-costs"):
        path = timings_text(r)
        words.append(f"edited({path}, {edits(r)})" if one_in(r, 3) else path)
        if name == "check-costs" or one_in(r, 2):
            words += ["'--cost'", pick(r, ("'qwen3-8b'", f"saved({cost(r)})"))]
        if name == "calibrate" and one_in(r, 3):
            words += ["'--save'", "'fit.json'"]
        return call("command", *words)
    ranks = str(r.randint(1, 2))
    if name != "check":
        words.append(lengths_file(r))
    words += ["'--dp-size'", repr(f"{ranks},{ranks}") if name == "sweep" and one_in(r, 2) else repr(ranks)]
    if name != "costs":
        cap = str(r.choice((1, 100, 40_000, 2**63 - 1)))
        words += ["'--max-tokens-per-gpu'", repr(cap)] if one_in(r, 2) else []
        words += words_of(r, COMMAND_OPTIONS, 3)
    return call("command", *words)


def trainer_arguments(r: Random) -> str:
    if one_in(r, 2):
        return f"validate_balance_args(flags({', '.join(words_of(r, TRAINER_OPTIONS, 4))}))"
    fields: dict[str, object] = {"balance_data": True, "micro_batch_size": 1, "max_tokens_per_gpu": 9}
    fields |= {"balance_by_flops": one_in(r, 3), "use_dynamic_batch_size": one_in(r, 2), "on_leftover": "drop"}
    fields |= {"balance_within_cap": one_in(r, 3), "balance_objective": "step"}
    return f"validate_balance_args({call('Namespace', **damaged(r, fields))})"


def synthetic(r: Random) -> str:
    return call(
        "synthetic_rollout",
        number(r, 1, 20).replace(str(10**8), str(10**5)),  # so many are made, in seconds of honest work for 10^8
        number(r, 1, 9).replace(str(10**8), str(10**5)) if one_in(r, 2) else "2",
        max_tokens=number(r, 1, 50_000) if one_in(r, 2) else None,
        seed=number(r, 0, 9) if one_in(r, 2) else None,
    )


def rollout(r: Random) -> str:
    lengths_of = call("synthetic_rollout", str(r.randint(1, 6)), str(r.randint(1, 4)))
    return call("plan", f"*{lengths_of}[:1]", dp_size=number(r, 1, 4), max_tokens=number(r, 1, 99_999))


WRITERS: dict[Callable[[Random], str], int] = {
    plan: 30,
    partition: 12,
    first_fit: 4,
    pack: 4,
    splitting: 5,
    inverse: 2,
    published_flops: 4,
    dp_schedule: 10,
    feasible: 4,
    schedule_method: 4,
    lists: 3,
    log_probs: 3,
    hand_made_schedule: 5,
    damaged_schedule: 2,
    cost_method: 6,
    model_reader: 4,
    saved_cost: 2,
    calibration: 1,
    reporting: 7,
    pipeline: 3,
    reading: 6,
    commanding: 1,
    trainer_arguments: 2,
    synthetic: 1,
    rollout: 1,
}
"""How often each is drawn; what takes milliseconds seldom is."""

RARE = 300
"""One call of so many draws or is of many samples, which takes longest of all."""


def line(seed: int, number: int) -> str:
    """Return the call of this number."""
    r = Random(f"{seed} {number}")
    if one_in(r, RARE):
        return r.choice((pictures, large_plan))(r)
    (writer,) = r.choices(list(WRITERS), list(WRITERS.values()))
    return writer(r)
