"""Instructions that code can check, and what answers claim about having followed them."""
