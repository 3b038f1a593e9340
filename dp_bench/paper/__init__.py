"""What was published: values, misprints, readings, and which cells were tuned on."""
