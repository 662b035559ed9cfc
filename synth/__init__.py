"""Synthesizer experiments: attention variants, Transformer, training, decoding, scoring, tables."""
