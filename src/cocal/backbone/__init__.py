"""Tiny policies made here: a tokenizer, a corpus and pre-training to partial competence."""
