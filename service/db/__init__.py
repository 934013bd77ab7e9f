"""The database: tables (`models`), the engine, and one module of queries for each subject. All SQL is here."""
