"""Multi-token-prediction heads as models of their own: what one draft step runs."""

from __future__ import annotations

from dataclasses import replace

from rooflens.core.blocks import Linear
from rooflens.core.model import ModelSpec
from rooflens.errors import InputError
from rooflens.sources.fields import Fields

_NAMES = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")


def mtp_layers(fields: Fields) -> int:
    """How many prediction modules a config says that its checkpoint holds; 0 without any."""
    return next((fields.number(name, 0) for name in _NAMES if fields.has(name)), 0)


def mtp_model(model: ModelSpec) -> ModelSpec:
    """The prediction modules of `model` as a model: one decoder layer each, between a projection and the output head.

    A module normalises the embedding of the newest token and the model's last hidden state, projects both
    together (2 x hidden -> hidden) and runs one more layer of the last kind (DeepSeek-V3, 2412.19437, section 2.2).
    Embedding and output head are the model's own: they are read in every step, and counted here as well.

    Raises:
        InputError: the config of `model` names no such modules.
    """
    if not model.mtp_layers:
        raise InputError(
            f"{model.name} has no multi-token-prediction modules; expected a config with one of {', '.join(_NAMES)}"
        )
    projection = Linear("eh_proj", 2 * model.hidden, model.hidden)
    layer = replace(model.layers[-1], count=model.mtp_layers)
    return replace(
        model,
        name=f"{model.name} MTP",
        layers=(layer,),
        inputs=(projection,) * model.mtp_layers,
        extra_params=2 * model.hidden * model.mtp_layers,
        mtp_layers=0,
        tower=None,
        notes=(*model.notes, "the prediction modules alone; embedding and output head are the model's own"),
    )
