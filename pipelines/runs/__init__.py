"""The contract of a run: flags, preview, estimate, progress, manifest, card, report, publishing."""
