"""What every table and figure is made of: its declaration, what it shows, its inputs and its files."""
