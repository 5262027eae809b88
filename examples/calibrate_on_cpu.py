"""Time a small decoder layer in NumPy on this machine, fit a cost to half of the micro-batches, predict the others.

python examples/calibrate_on_cpu.py
"""

# ruff: noqa: E402
import os

for library in ("OMP", "OPENBLAS", "MKL"):  # one thread, and that before NumPy starts more
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

import argparse
import time

import numpy as np

from flopbalance import CostModel

HIDDEN, HEADS, WIDTH = 128, 2, 352
ROUNDS = 5


def main() -> None:
    """Measure, fit, predict."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--micro-batches", type=int, default=120, help="to measure (default: %(default)s)")
    parser.add_argument("--longest", type=int, default=2048, help="sequence in tokens (default: %(default)s)")
    options = parser.parse_args()

    random = np.random.default_rng(0)
    layer = Layer(random)
    micro_batches = varied_micro_batches(random, options.micro_batches, options.longest)
    # In rounds, and the least of each: what other programs on the machine disturb, they rarely disturb every time.
    rounds = [[measure(layer, lengths) for lengths in micro_batches] for _ in range(ROUNDS)]
    seconds = np.min(rounds, axis=0)

    fitted = CostModel.fit(micro_batches[::2], seconds[::2], per_sequence=True)
    held_out, measured = micro_batches[1::2], seconds[1::2]
    tokens = np.array([sum(lengths) for lengths in held_out])
    per_token = np.median([taken / sum(lengths) for lengths, taken in zip(micro_batches, seconds, strict=True)][::2])
    print(f"{fitted.per_token * 1e6:.2f} µs a token, {fitted.per_square * 1e9:.2f} ns a pair of tokens")
    print(f"mean error on {len(held_out)} micro-batches that were not fitted:")
    print(f"  counting tokens  {mean_error(per_token * tokens, measured):6.1%}")
    print(f"  the fit          {mean_error(fitted.predict(held_out), measured):6.1%}")


class Layer:
    """One decoder layer: attention over each sequence of a packed micro-batch, and a gated MLP over all tokens."""

    def __init__(self, random: np.random.Generator) -> None:
        def matrix(rows: int, columns: int) -> np.ndarray:
            return (random.standard_normal((rows, columns)) / rows**0.5).astype(np.float32)

        self.query_key_value, self.output = matrix(HIDDEN, 3 * HIDDEN), matrix(HIDDEN, HIDDEN)
        self.gate_up, self.down = matrix(HIDDEN, 2 * WIDTH), matrix(WIDTH, HIDDEN)

    def forward(self, tokens: np.ndarray, lengths: list[int]) -> np.ndarray:
        """Return the hidden vectors after the layer."""
        query, key, value = np.split(tokens @ self.query_key_value, 3, axis=1)
        attended = np.empty_like(tokens)
        start = 0
        for length in lengths:
            for head in range(HEADS):
                part = (slice(start, start + length), slice(head * HIDDEN // HEADS, (head + 1) * HIDDEN // HEADS))
                scores = np.exp(query[part] @ key[part].T / (HIDDEN / HEADS) ** 0.5)
                scores = np.tril(scores)
                attended[part] = scores @ value[part] / scores.sum(axis=1, keepdims=True)
            start += length
        hidden = tokens + attended @ self.output
        gate, up = np.split(hidden @ self.gate_up, 2, axis=1)
        return hidden + (gate / (1 + np.exp(-gate)) * up) @ self.down


def varied_micro_batches(random: np.random.Generator, count: int, longest: int) -> list[list[int]]:
    """Single sequences, many short ones and mixes: a fit needs both terms to vary."""
    batches = []
    for i in range(count):
        sequences = (1, int(random.integers(8, 24)), int(random.integers(2, 8)))[i % 3]
        most = (longest, longest // 8, longest // 2)[i % 3]
        batches.append(np.exp(random.uniform(np.log(16), np.log(most), sequences)).astype(int).tolist())
    return batches


def measure(layer: Layer, lengths: list[int]) -> float:
    """CPU seconds of a forward pass."""
    tokens = np.ones((sum(lengths), HIDDEN), dtype=np.float32)
    start = time.process_time()
    layer.forward(tokens, lengths)
    return time.process_time() - start


def mean_error(predicted: np.ndarray, measured: np.ndarray) -> float:
    """Mean of the relative errors."""
    return float(np.abs(predicted / measured - 1).mean())


if __name__ == "__main__":
    main()
