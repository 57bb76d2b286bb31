"""The DynamoDB engine. Importing it imports the client, so only `engine_for` does, when a URL asks for it."""
