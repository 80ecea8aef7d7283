"""Parts that several methods are made of: a network with plain weights, averages, declared sharing."""
