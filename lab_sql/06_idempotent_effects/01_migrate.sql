-- Lesson 6: an outbox. A request to another service is written in the transaction that completes the task,
-- and sent afterwards.
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

CREATE TABLE IF NOT EXISTS backend_training.outbox (
    id              bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task_id         bigint      NOT NULL,
    idempotency_key text        NOT NULL UNIQUE,
    request         jsonb       NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    attempts        integer     NOT NULL DEFAULT 0,  -- of its delivery; claimed as tasks are, with a lease
    lease_until     timestamptz NULL,
    delivered_at    timestamptz NULL
);

COMMIT;
