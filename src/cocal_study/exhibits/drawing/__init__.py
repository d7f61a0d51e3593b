"""Drawing code that several figures share: the style, rows of panels, curves over rollout steps and diagrams."""
