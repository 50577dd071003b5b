"""Scenario: how a model is run, and by which conventions it is counted."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from rooflens.core.arrays import Count
from rooflens.core.op import DType
from rooflens.errors import InputError


class PhaseKind(str, Enum):
    """What a forward pass does: reads prompts, gives one more token to each sequence, or both at once.

    STEP is a pass, or several, of which a recording does not tell what they do.
    """

    PREFILL = "prefill"
    DECODE = "decode"
    CHUNKED_PREFILL = "chunked_prefill"
    STEP = "step"

    def __str__(self) -> str:
        return self.value


class AttentionFlops(str, Enum):
    """Which (query, key) pairs count: those that a causal mask keeps, or all of them."""

    CAUSAL = "causal"
    FULL = "full"


class Logits(str, Enum):
    """For which tokens of a prefill the output head runs."""

    LAST = "last"
    ALL = "all"


class TrafficModel(str, Enum):
    """Which bytes count: weights alone, those of fused kernels, or those of every framework op."""

    WEIGHTS = "weights"
    FUSED = "fused"
    EAGER = "eager"


class LatentForm(str, Enum):
    """How latent attention runs: over expanded keys and values, or absorbed into the latent."""

    AUTO = "auto"
    EXPANDED = "expanded"
    ABSORBED = "absorbed"


class Fusion(str, Enum):
    """Which projections run as one GEMM: as serving engines run them, or as the framework does."""

    ENGINE = "engine"
    FRAMEWORK = "framework"


_CHOICES: dict[str, type[Enum]] = {
    "attention_flops": AttentionFlops,
    "logits": Logits,
    "traffic": TrafficModel,
    "fusion": Fusion,
    "latent": LatentForm,
}


@dataclass(frozen=True, slots=True)
class Conventions:
    """How things are counted; printed with every result.

    latent: auto is expanded in prefill and absorbed in decode. distinct_experts: experts of a layer that a decode step
    reads, a measured count in place of the expectation under uniform routing.
    """

    attention_flops: AttentionFlops = AttentionFlops.CAUSAL
    logits: Logits = Logits.LAST
    traffic: TrafficModel = TrafficModel.FUSED
    fusion: Fusion = Fusion.ENGINE
    latent: LatentForm = LatentForm.AUTO
    distinct_experts: float | None = None

    def __post_init__(self) -> None:
        """Take the words of the choices as well. Raises InputError for one that is not known."""
        for name, kind in _CHOICES.items():
            given = getattr(self, name)
            try:
                object.__setattr__(self, name, kind(given))
            except ValueError as cause:
                known = ", ".join(member.value for member in kind)
                raise InputError(f"{name} is {given!r}; expected one of {known}") from cause


@dataclass(frozen=True, slots=True)
class Precision:
    """The dtypes of a run.

    compute: arithmetic of the linear layers, selects their roof. attention: arithmetic of attention and
    output head, which quantisation leaves alone. activations: storage between kernels. weights: storage of
    the linear layers; kept: of embedding, norms, biases and output head. kv: of the cache. state: of recurrent
    and convolution states; None is fp32 for the first and the activations' dtype for the second, as vLLM keeps them.
    overridden: the user asked for `weights`, whatever the checkpoint stores. arithmetic: (stored, multiplied in) of
    quantised layers that are stored otherwise than `weights`, where they do not run in `compute`.
    """

    compute: DType
    attention: DType
    activations: DType
    weights: DType
    kept: DType
    kv: DType
    state: DType | None = None
    overridden: bool = field(default=False, kw_only=True)
    arithmetic: tuple[tuple[DType, DType], ...] = field(default=(), kw_only=True)


@dataclass(frozen=True, slots=True)
class Batch:
    """One forward pass: `sequences` sequences, each with `new_tokens` tokens after `cached_tokens`.

    image_tokens: those that the cross-attention layers of each sequence see. Each is an int, or an array of one shape.
    """

    sequences: Count
    new_tokens: Count
    cached_tokens: Count
    image_tokens: Count = 0

    @property
    def tokens(self) -> Count:
        """Tokens that pass through the linear layers."""
        return self.sequences * self.new_tokens


@dataclass(frozen=True, slots=True)
class Phase:
    """A forward pass with its name."""

    kind: PhaseKind
    batch: Batch


@dataclass(frozen=True, slots=True)
class Scenario:
    """Batch, prompt and output length, dtypes and conventions.

    context: tokens cached before the decode step that is counted; prompt + output // 2 unless given.
    image_tokens: of each sequence, for models with cross-attention layers. ran: whether it was run: `context` is then
    the mean of the steps that ran, and the output was made in full.
    """

    batch: Count
    prompt: Count
    output: Count
    precision: Precision
    context: Count | None = None
    conventions: Conventions = field(default_factory=Conventions)
    image_tokens: Count = 0
    ran: bool = False

    @property
    def decode_context(self) -> Count:
        """Tokens cached before the decode step: `context`, or the middle of the output."""
        return self.prompt + self.output // 2 if self.context is None else self.context

    @property
    def longest_context(self) -> Count:
        """Tokens that each sequence holds at the end: prompt and output, or the explicit context and one more."""
        return self.prompt + self.output if self.context is None or self.ran else self.context + 1

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Prefill of the prompt, then one decode step; an output of 1 token has no decode phase.

        The first token comes out of prefill. An explicit context asks for the step itself.
        """
        prefill = Phase(PhaseKind.PREFILL, Batch(self.batch, self.prompt, 0, self.image_tokens))
        decode = Phase(PhaseKind.DECODE, Batch(self.batch, 1, self.decode_context, self.image_tokens))
        return (prefill, decode) if self._decodes else (prefill,)

    @property
    def _decodes(self) -> bool:
        if self.context is not None and not self.ran:
            return True
        return bool(self.output > 1) if isinstance(self.output, (int, float)) else bool((self.output > 1).any())
