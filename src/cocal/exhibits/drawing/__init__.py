"""What figures share: style, rows of panels, curves over rollout steps, diagrams."""
