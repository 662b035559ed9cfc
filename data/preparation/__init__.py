"""How a real data set gets on disk: its archives, TFDS' preparation of them, the checks.

Importing a module of this package imports tensorflow_datasets, which is slow. TensorFlow is
imported only while a stock builder of TFDS runs, by TFDS itself.
"""
