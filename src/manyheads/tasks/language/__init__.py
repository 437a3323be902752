"""Language modelling: a text in, what comes next out."""
