"""Configs of models that generate no text token by token: refused by name, each with the reason."""

from __future__ import annotations

import re

from rooflens.errors import UnknownArchitectureError
from rooflens.sources.fields import Fields

_ENCODER_DECODERS = frozenset((
    "bart", "bigbird_pegasus", "blenderbot", "blenderbot-small", "byt5", "encoder-decoder", "florence2", "fsmt",
    "led", "longt5", "m2m_100", "marian", "mbart", "mt5", "mvp", "nllb", "nllb-moe", "nougat", "pegasus",
    "pegasus_x", "pix2struct", "plbart", "prophetnet", "seamless_m4t", "seamless_m4t_v2", "speech-encoder-decoder",
    "speech_to_text", "speecht5", "switch_transformers", "t5", "t5gemma", "t5gemma2", "udop", "umt5",
    "vision-encoder-decoder", "whisper",
))  # fmt: skip
_ENCODERS = frozenset((
    "albert", "align", "altclip", "beit", "bert", "big_bird", "camembert", "canine", "clip", "convbert", "deberta",
    "deberta-v2", "deit", "dinov2", "distilbert", "electra", "ernie", "esm", "eurobert", "flaubert", "fnet",
    "funnel", "gte", "hubert", "ibert", "jina_embeddings_v3", "layoutlm", "layoutlmv3", "longformer", "luke",
    "megatron-bert", "mobilebert", "modernbert", "mpnet", "mra", "nezha", "nomic_bert", "nystromformer", "qdqbert",
    "rembert", "roberta", "roberta-prelayernorm", "roc_bert", "roformer", "siglip", "siglip2", "splinter",
    "squeezebert", "vit", "wav2vec2", "wavlm", "xlm", "xlm-roberta", "xlm-roberta-xl", "xmod", "yoso",
))  # fmt: skip
_HEADLESS = re.compile(r"^(?!ChatGLM|Bloom)\w+(?<!LMHead)(?<!DoubleHeads)Model$")
"""Classes without an output head; ChatGLM's and old BLOOM configs name them for models that have one."""
_NO_GENERATION = re.compile(
    r"For(MaskedLM|SequenceClassification|TokenClassification|QuestionAnswering|MultipleChoice|FeatureExtraction"
    r"|TextEncoding|PreTraining|NextSentencePrediction)$"
)


NESTED = ("text_config", "llm_config", "language_config")
"""Where configs of several modalities keep that of their language part."""


def refuse(fields: Fields) -> None:
    """Refuse what is no decoder-only language model.

    Raises:
        UnknownArchitectureError: an encoder-decoder, an encoder or embedding model, or a diffusion model; says which.
    """
    reason = _reason(fields)
    if reason:
        raise UnknownArchitectureError(f"{fields.origin}: {reason}; rooflens counts decoder-only language models")


def _reason(fields: Fields) -> str | None:
    if fields.has("_class_name", "_diffusers_version"):
        named = fields.text("_class_name", "a pipeline")
        return f"{named[:80]!r} is part of a diffusion model, which makes images or video in denoising steps"
    if "sentence_transformers" in fields.nested("__version__"):
        return "this is the config of a SentenceTransformers embedding model, which has no output head"
    kind = fields.text("model_type", "")
    if kind in _ENCODER_DECODERS or fields.flag("is_encoder_decoder", False):
        return f"{kind[:80] or 'the model'!r} is an encoder-decoder, whose decoder attends to an encoder's output"
    if kind in _ENCODERS:
        return f"{kind!r} is an encoder: it embeds or labels its input and has no decode phase"
    if any(fields.nested(name) for name in NESTED):
        return None
    return _class_reason(tuple(fields.strings("architectures") or ()))


def _class_reason(classes: tuple[str, ...]) -> str | None:
    if classes and all(_NO_GENERATION.search(name) for name in classes):
        return f"{classes[0][:80]!r} labels or embeds its input and has no decode phase"
    if classes and all(_HEADLESS.match(name) for name in classes):
        return f"{classes[0][:80]!r} is an embedding model: it has no output head and no decode phase"
    return None
