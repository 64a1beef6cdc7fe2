"""Speed as ratios: ours, raw SQLite and peers do the same work in one run, so that the machine's own speed cancels."""
