"""Access control, and the limits that keep one client from harming the others."""
