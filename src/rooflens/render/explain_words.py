"""What a kernel is, in words, and why its figures are what they are: a sentence for whoever is learning."""

from __future__ import annotations

from rooflens.core.attention import Attention, LatentAttention, Reach
from rooflens.core.compressed import CompressedAttention
from rooflens.core.op import AttentionShape, ExpertShape, GemmShape, OpKind, PointwiseShape
from rooflens.core.recurrent import Recurrent
from rooflens.count import plan as steps
from rooflens.render.explain_formula import number
from rooflens.render.explain_span import span_of, span_words
from rooflens.render.explain_view import View
from rooflens.render.layers import RECURRENT_NAMES

_SCORES = "light heads look at everything so that attention reads K tokens: this part still grows with the context"
_POINTWISE = {
    OpKind.EMBEDDING: "a lookup: the rows that are read move, not the table",
    OpKind.NORM: "a norm over each token's values",
    OpKind.ROTARY: "q and k are rotated by their position",
    OpKind.ACTIVATION: "the activation function between the projections",
    OpKind.RESIDUAL: "the sum with the residual stream",
    OpKind.COPY: "a copy that unfused attention makes",
    OpKind.SOFTMAX: "softmax over the score matrix, which goes through memory",
}
_NAMED = {
    "output_gate": "the output of attention is multiplied by a gate",
    "experts_activation": "the activation function of the experts, on every routed row",
    "experts_sum": "the outputs of a token's experts are weighed and summed",
    "shared_activation": "the activation function of the shared experts",
}


def what(view: View) -> str:
    """A kernel in words, with the names that its formulas use."""
    shape = view.op.shape
    if view.step is None:
        return f"{view.op.kind} as the framework runs it"
    if isinstance(view.step, steps.Mix):
        return f"{view.step.layer.streams} residual streams mixed among themselves, into a block and out of it"
    if isinstance(shape, GemmShape):
        kind = "GEMV, one row" if shape.m == 1 else "GEMM"
        return f"{kind} of m {number(int(shape.m))} tokens, k {shape.k:,} inputs, n {shape.n:,} outputs{_storage(view)}"
    if isinstance(shape, ExpertShape):
        return _experts(view, shape)
    if view.recurrent is not None:
        return _recurrent(view, view.recurrent)
    if view.op.kind is OpKind.INDEXER and view.shape is not None:
        heads = f"{view.shape.heads:,} light heads of width {view.shape.d_k}"
        seen = "compressed key" if view.compressed else "earlier token"
        blocks = isinstance(view.step, steps.ScoreBlocks)
        return f"{heads} score every {seen}, the best {'blocks' if blocks else 'K'} are kept"
    if view.op.kind is OpKind.ATTENTION and view.shape is not None:
        return _attention(view, view.shape)
    return _pointwise(view)


def _storage(view: View) -> str:
    """In which dtype the weights are stored, where it is not that of the linear layers."""
    if not view.parts:
        return ""
    stored = view.stored(view.parts[0])
    return "" if view.is_head or stored is view.precision.weights else f", stored in {stored}"


def _experts(view: View, shape: ExpertShape) -> str:
    assert view.moe is not None
    taken = f"top_k {view.moe.top_k:,} of E {view.moe.experts:,} experts"
    rows = f"m {number(int(shape.m))} routed rows, k {shape.k:,} inputs, n {shape.n:,} outputs"
    return f"grouped GEMM of {rows}, {taken}{_storage(view)}"


def _recurrent(view: View, layer: Recurrent) -> str:
    name = RECURRENT_NAMES.get(type(layer), "recurrence")
    if view.op.kind is OpKind.CONVOLUTION:
        return f"causal convolution of {layer.conv_channels:,} channels with a kernel of {layer.conv_kernel}, {name}"
    chunk = getattr(view.op.shape, "chunk", 0)
    form = f"in chunks of Q {chunk:,} tokens" if chunk else "token by token"
    state = f", {layer.state_values:,} state values" if layer.state_values else ""
    return f"{name} {form}{state}"


def _attention(view: View, shape: AttentionShape) -> str:
    group = shape.heads // shape.kv_heads
    shared = f"{shape.kv_heads:,} KV heads, each shared by {group}" if group > 1 else f"{shape.kv_heads:,} KV heads"
    layer = view.attention
    if isinstance(layer, LatentAttention):
        shared = "one cached latent" if view.setting.absorbed else "keys and values expanded for each"
    if isinstance(view.step, steps.AttendImages):
        shared += f", {int(view.batch.image_tokens):,} image tokens"
    if isinstance(layer, CompressedAttention):
        shared = f"one key that is its own value{_entries(layer)}"
    has_sinks = isinstance(layer, CompressedAttention) or (isinstance(layer, Attention) and layer.sinks)
    sinks = ", a sink for each" if has_sinks else ""
    widths = f"d_k {shape.d_k}, d_v {shape.d_v}"
    return f"attention of {shape.heads:,} heads{sinks} over {shared}, {widths}{span_words(view)}"


def _entries(layer: CompressedAttention) -> str:
    if layer.compressor is None:
        return ""
    top = f", the top K {layer.indexer.top_k:,} of them" if layer.indexer else ""
    return f" and entries of m {layer.compressor.rate} tokens each{top}"


def _pointwise(view: View) -> str:
    op = view.op
    if isinstance(view.step, steps.AttendCompressed):
        return "a gated mean over each stretch of tokens, which makes one entry of the cache"
    text = _NAMED.get(op.name, _POINTWISE.get(op.kind, str(op.kind)))
    fused = isinstance(op.shape, PointwiseShape) and not op.traffic.memory
    return f"{text}; fused into its neighbours, no bytes of its own" if fused else text


def why(view: View) -> str:
    """One sentence on why the figures of a kernel are as they are; empty for those that the opening explains."""
    match view.step:
        case steps.Experts():
            return _why_experts(view)
        case steps.Scan() | steps.Convolve():
            return _why_recurrent(view)
        case steps.AttendLatent():
            return _why_latent(view)
        case steps.AttendCompressed():
            return _why_compressed(view)
        case steps.ScoreBlocks():
            return _SCORES
        case steps.ImageProjection():
            return "keys and values of an image do not change: they are computed with the prompt and not again"
        case steps.AttendImages():
            return "every text token sees every image token, so that this cache does not grow with the text"
        case steps.Attend(_, layer):
            return _why_span(view, layer)
        case steps.Projection(name, _):
            return _why_projection(name)
        case _:
            return ""


def _why_experts(view: View) -> str:
    moe, shape = view.moe, view.op.shape
    assert moe is not None
    assert isinstance(shape, ExpertShape)
    rows = float(shape.m) / float(shape.experts)
    late = moe.experts / moe.top_k
    return (
        f"each expert that is read serves {number(rows)} rows on average, since a token takes {moe.top_k:,} of "
        f"{moe.experts:,}: experts need {number(late)} times the tokens of a dense layer to become compute-bound"
    )


def _why_recurrent(view: View) -> str:
    layer = view.recurrent
    assert layer is not None
    if view.op.kind is OpKind.CONVOLUTION:
        return "a token needs the few before it, so that the last columns are all that is kept of the past"
    if not layer.state_values:
        return "a gate value by value: the past is kept in the columns of the convolution alone"
    if view.stepping:
        return "the state has one size whatever the context: a step reads and writes it once and never grows"
    if getattr(view.op.shape, "chunk", 0):
        return "within a chunk the recurrence is matrix products, so that work grows with the prompt and not its square"
    return "each token updates the state that the one before it left: the work grows with the prompt and not its square"


def _why_latent(view: View) -> str:
    layer, op = view.latent, view.op
    assert layer is not None
    if op.kind is OpKind.INDEXER:
        return _SCORES
    if op.kind is OpKind.GEMM and view.setting.absorbed:
        return "the expansion is applied to queries and outputs, so that its work follows new tokens and not the cache"
    if op.kind is OpKind.GEMM:
        return "only latents are cached: keys and values of every head are computed from all of them in each pass"
    if view.setting.absorbed:
        return (
            f"all {layer.heads:,} heads share each latent as key and as value, so that a byte which is read is used "
            "often: at a large group even a decode step can be compute-bound"
        )
    return "once expanded, latent attention is multi-head attention: as many KV heads as heads"


def _why_compressed(view: View) -> str:
    if view.op.kind is OpKind.INDEXER:
        return "keys are compressed before they are scored, so that this part grows with the context over m"
    if view.op.kind is OpKind.ATTENTION:
        return "a query sees recent tokens one by one and older ones as entries, so that the cache grows by one in m"
    if view.op.kind is OpKind.GEMM:
        return "groups of heads are projected apart, which takes fewer weights than one matrix over all heads"
    return "an entry is written when its stretch is full: until then its tokens wait in a state of fixed size"


def _why_span(view: View, layer: Attention) -> str:
    if view.op.kind is not OpKind.ATTENTION:
        return ""
    if not layer.owns_cache:
        return "this layer reads keys and values that an earlier layer has cached, and adds none of its own"
    return {
        Reach.WINDOW: "a query sees W tokens at most, so that work and cache of a step stop growing there",
        Reach.CHUNK: "a query sees its own chunk alone, so that a step reads less than C tokens whatever the context",
        Reach.SPARSE: "a query sees the K tokens that were picked, so that a step reads no more of them",
        Reach.FULL: "",
        Reach.COMPRESSED: "",
    }[span_of(view).reach]


def _why_projection(name: str) -> str:
    if name == "router":
        return "every token is scored against every expert: few columns, all tokens, and never quantised"
    if name.startswith("shared_") and name != "shared_gate":
        return "every token passes through the shared experts, which cross the ridge point as a dense layer does"
    if name.startswith("latent_"):
        return "experts work in a narrower width, to which every token is projected and from which it comes back"
    return ""
