"""The pipeline behind each rank."""

from __future__ import annotations

from dataclasses import dataclass

from flopbalance.checks import as_count, shown


@dataclass(frozen=True)
class Pipeline:
    """The pipeline that each rank's micro-batches go through, one forward one backward, for `plan` and `report`.

    Parameters
    ----------
    stages : int
        Stages of the pipeline, up to 65,536.
    chunks : int, default 1
        Chunks of the model on every stage, up to 1,024. More than one are interleaved.
    group : int, optional
        Micro-batches that go through one chunk after another, at least `stages`, which is the default. With more than
        one chunk a rank gets a multiple of it.

    Raises
    ------
    ValueError
        For what is not such a number.

    See Also
    --------
    simulate_pipeline : When a pipeline ends.

    Examples
    --------
    >>> from flopbalance import plan
    >>> lengths = [9, 7, 2, 5, 4, 3, 8, 8]
    >>> cap = {"dp_size": 1, "max_tokens": 16, "packing": "capped"}
    >>> plan(lengths, **cap, objective="pipeline", pipeline=Pipeline(stages=2, chunks=2)).sample_counts.shape[1] % 2
    0
    """

    stages: int
    chunks: int = 1
    group: int | None = None

    def __post_init__(self) -> None:
        own = vars(self)
        own["stages"] = as_count(self.stages, "stages")
        own["chunks"] = as_count(self.chunks, "chunks")
        own["group"] = None if self.group is None else as_count(self.group, "group")


def as_pipeline(pipeline: Pipeline | None, pipeline_stages: int) -> Pipeline:
    """Return the pipeline that one of two arguments describes."""
    if pipeline is None:
        return Pipeline(as_count(pipeline_stages, "pipeline_stages"))
    if not isinstance(pipeline, Pipeline):
        raise ValueError(f"pipeline must be a Pipeline, got {shown(pipeline)}")
    if as_count(pipeline_stages, "pipeline_stages") != 1:
        raise ValueError(
            f"pipeline_stages must not be given beside pipeline, which holds it, got {shown(pipeline_stages)}"
        )
    return pipeline
