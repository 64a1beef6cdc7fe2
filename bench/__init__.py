"""Speed as ratios: ours and raw SQLite do the same work in the same run, so that a busy or slow machine cancels out."""
