"""A lab on one machine: hosts of `mooring up` that are processes, each as if on its own machine."""
