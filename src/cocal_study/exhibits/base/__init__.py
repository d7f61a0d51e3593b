"""The parts of every table and figure: its declaration, its layout, its inputs and its files."""
