"""What files of a study are made from: lineage, identities, digests of code, and the study that owns a folder."""
