"""The documented tasks: admission, decorators, training slots and orchestrator roles."""
