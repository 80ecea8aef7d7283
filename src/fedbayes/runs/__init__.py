"""One run from its specification to its artefacts: the only room that joins data, method, engine and files."""
