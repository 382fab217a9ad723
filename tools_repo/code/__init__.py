"""Coding tasks executed for real: a private workspace per trajectory, tools that act on it, hidden tests that decide.

A workspace is a value in our memory. Each command runs in a sandbox of its own that gets the files on stdin and gives
back those that changed on stdout, so nothing that untrusted code made ever lies on this machine's disk, no link of its
making is ever followed by us, and no process outlives its call.
"""
