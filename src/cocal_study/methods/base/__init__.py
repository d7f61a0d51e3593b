"""What methods are made of: the responses that they read, scores of companions and stated confidences, predictions."""
