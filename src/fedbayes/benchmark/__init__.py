"""The engine beside a plain PyTorch loop: `python -m fedbayes.benchmark`."""
