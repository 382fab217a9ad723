"""Everything between Tokenmill and a model: specs, client, cache, budget, managed servers."""
