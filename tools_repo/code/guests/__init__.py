"""Programs that we run inside sandboxes, each sent there as text. They know nothing of this project and import only
Python's own library (`tester` also pytest); what they need comes as JSON lines over a private channel, and what they found
goes back over it.
"""
