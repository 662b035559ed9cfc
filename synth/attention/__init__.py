"""Self-attention with synthesized weights (Tay et al., 2021): one algebra for every variant.

Dimension key, used as name suffixes everywhere in this package (`query_BLHK`, `logits_BHLM`):

    B batch            L query length      M memory (key) length
    D model width      H heads             K width of a head
    N maximum length   R rank              T terms of a mixture
    F feed-forward     V vocabulary

A synthesizing function S(X) is a *score term* (`scores.py`) in one of three forms (`terms.py`).
`attend.py` turns the sum of the terms and the values into the output by the cheapest exact path;
`layer.py` holds the modules.
"""

from synth.attention.layer import CrossAttention, SelfAttention
from synth.variants import VARIANTS, parse_variant

__all__ = ["VARIANTS", "CrossAttention", "SelfAttention", "parse_variant"]
