"""The nodes of a cluster: which are present, which lead, their health and the alerts about them."""
