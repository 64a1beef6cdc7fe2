"""Reversi on twelve variants: the game that the loop makes stronger out of the box.

The only package that imports numpy, numba, torch and safetensors; nothing here is loaded before a worker needs it.
"""
