"""Checks of a document that was found, not written: published filters, validity by domain, personal data, licences."""
