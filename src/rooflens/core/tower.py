"""Vision encoders: a tower of bidirectional layers over patches, and the mergers that make image tokens of them."""

from __future__ import annotations

from dataclasses import dataclass

from rooflens.core.blocks import Linear, Norm, params_of
from rooflens.core.model import Layer


@dataclass(frozen=True, slots=True)
class Tower:
    """The vision encoder of a model; its parameters are not in the model's own count.

    patch: the patch embedding, a projection of one patch's pixels. patches: how many of them one image token is made
    of. layers: over patches, every patch attends to every other of its image. mergers: projections over image tokens,
    each as often as it is listed. norms: outside the layers. extra_params: position tables.
    """

    patch: Linear
    patches: int
    layers: tuple[Layer, ...]
    mergers: tuple[Linear, ...]
    norms: tuple[Norm, ...] = ()
    extra_params: int = 0

    @property
    def params(self) -> int:
        """Number of parameters."""
        layers = sum(layer.count * layer.params for layer in self.layers)
        norms = sum(norm.params for norm in self.norms)
        return self.patch.params + layers + params_of(self.mergers) + norms + self.extra_params
