"""One file per task; `configs/wmt_ende.py:random+vanilla,scale=small` names a run."""
