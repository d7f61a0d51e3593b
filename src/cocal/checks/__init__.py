"""The protocol of a study, recomputed from its files: each check refuses a violation or says what it looked at."""
