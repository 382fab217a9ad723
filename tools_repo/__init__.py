"""Tool specifications: harvest, evolution, rendering, and the worlds that run tools."""
