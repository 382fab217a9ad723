"""How fast the gym's environments are, whether slow ones idle an endpoint, and how many claims of compliance code catches."""
