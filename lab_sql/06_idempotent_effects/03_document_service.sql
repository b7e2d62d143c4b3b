-- Lesson 6: the tables of the document service. The service has a database of its own and runs this script there.
-- Running it twice changes nothing.

BEGIN;

SET LOCAL lock_timeout = '4s';  -- give up rather than wait behind a forgotten transaction

DO $guard$
BEGIN
    IF current_database() !~ '^backend_training_lab(_[a-z0-9_]+)?$' THEN
        RAISE EXCEPTION 'This script changes only the lab''s database, and you are connected to "%". Nothing was changed.', current_database()
            USING HINT = 'Connect to backend_training_lab (or backend_training_lab_SUFFIX) and run the script again.';
    END IF;
END
$guard$;

CREATE SCHEMA IF NOT EXISTS document_service;

CREATE TABLE IF NOT EXISTS document_service.documents (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    title      text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- One row for each idempotency key: what was asked for, and the answer that every repetition gets.
CREATE TABLE IF NOT EXISTS document_service.requests (
    idempotency_key text  PRIMARY KEY,
    body            jsonb NOT NULL,
    answer          jsonb NULL  -- NULL only within the transaction that creates the document
);

COMMIT;
