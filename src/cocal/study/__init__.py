"""What follows from a study's configuration: its plan, what it is estimated to take, and what it did take."""
