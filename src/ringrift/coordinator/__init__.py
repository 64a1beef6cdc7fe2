"""The coordinator's side of the wire: who may ask for what, and the verbs that answer from the store."""
