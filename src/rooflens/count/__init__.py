"""Shapes to ops: pure arithmetic on exact integers or float64 arrays. Knows no hardware."""

from rooflens.count.forward import forward
from rooflens.count.sizes import active_params, kv_cache_bytes, params, state_bytes, weight_bytes

__all__ = ["active_params", "forward", "kv_cache_bytes", "params", "state_bytes", "weight_bytes"]
