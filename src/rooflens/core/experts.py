"""Mixture-of-experts layers."""

from __future__ import annotations

from dataclasses import dataclass

from rooflens.core.blocks import Block, Linear, Mlp, feed_forward, params_of


@dataclass(frozen=True, slots=True)
class Moe(Block):
    """`experts` feed-forward layers of which each token takes `top_k`, and what every token takes besides.

    expert: the shape of one expert. shared: an MLP that every token passes through. shared_gate: a scalar gate on
    it. latent: width that tokens are projected to before the experts and back after them (Nemotron 3 Super).
    router_bias: a bias of the router that is a parameter (a correction bias of the reference is a buffer).
    routing_params: other learned values of the router.
    """

    hidden: int
    experts: int
    top_k: int
    expert: Mlp
    shared: Mlp | None = None
    shared_gate: bool = False
    router_bias: bool = False
    latent: int | None = None
    routing_params: int = 0

    @property
    def part(self) -> str:
        """The experts' part."""
        return "experts"

    @property
    def linears(self) -> tuple[Linear, ...]:
        """Router, shared experts and latent projections: what every token passes through."""
        found = [Linear("router", self.hidden, self.experts, self.router_bias, precise=True)]
        if self.shared:
            found += feed_forward(self.shared, "shared_")
        if self.shared_gate:
            found.append(Linear("shared_gate", self.hidden, 1, precise=True))
        if self.latent is not None:
            found.append(Linear("latent_down_proj", self.hidden, self.latent))
            found.append(Linear("latent_up_proj", self.latent, self.hidden))
        return tuple(found)

    @property
    def expert_linears(self) -> tuple[Linear, ...]:
        """The projections of one expert."""
        return feed_forward(self.expert, "experts_")

    @property
    def expert_params(self) -> int:
        """Parameters of one expert."""
        return params_of(self.expert_linears)

    @property
    def extra_params(self) -> int:
        """All experts, and the router's other values."""
        return self.experts * self.expert_params + self.routing_params

    @property
    def idle_params(self) -> int:
        """Parameters that one token does not pass through: the experts that it was not routed to."""
        return (self.experts - self.top_k) * self.expert_params
