"""The event bus: publishing, delivery, durable handlers, live subscriptions, traces."""
