"""What runs on this machine: models, ceilings, and what tells of the machine's state. Only here torch computes."""
