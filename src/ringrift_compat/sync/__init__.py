"""The documented names of moving files, as thin views of the planner, its receipts and the ledger."""
