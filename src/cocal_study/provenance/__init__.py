"""What files of a study are made from: digests of code, and the study that owns a folder."""
