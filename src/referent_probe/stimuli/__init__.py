"""Items, context settings, pronoun forms and messages: text only, no tokenizer and no model."""
