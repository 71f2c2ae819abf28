"""Run folders: their files and lock, resuming, sweeps, the jobs of a sweep and its summary."""
