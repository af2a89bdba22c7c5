"""Bad backends: roads that fail on purpose. Each must land in its verdict, with its code."""
