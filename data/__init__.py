"""Data: what a task is, where its text comes from, and how text becomes batches of token ids.

tasks      -> what exists: a task, its data sets, their splits
sources    -> one split as random-access text, embedded or real
tokenizer  -> text to token ids and back, one vocabulary per data set
pipelines  -> endless training batches and exact evaluation batches
"""
