"""Pre-training of tiny policies to partial competence, with their tokenizer and corpus."""
