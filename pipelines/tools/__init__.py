"""Tool specifications: real ones from MCP servers (`harvest`), synthetic ones (`evolve`), runs merged (`curate`), and code
that runs them (`implement`)."""
