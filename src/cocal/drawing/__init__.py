"""The style of figures, and reliability diagrams."""
