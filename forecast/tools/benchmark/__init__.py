"""Time and memory of attention types, in one layer or in a whole model."""
