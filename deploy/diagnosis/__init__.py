"""What limits the learning of a run, from what it wrote itself."""
