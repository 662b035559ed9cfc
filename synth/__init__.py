"""Synthesizer experiments: attention variants, Transformer, training, decoding, scoring, tables."""

import time

STARTED = time.monotonic()  # about when the program began: every entry point imports this first
