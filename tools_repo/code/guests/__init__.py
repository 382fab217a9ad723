"""Programs that we run inside sandboxes, each sent there as text. They know nothing of this project and import only
Python's own library (`suite` also pytest); what they need comes as JSON on stdin, what they found goes to stdout.
"""
