-- Lesson 4: a lease and an attempt number for each task.
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

ALTER TABLE backend_training.tasks
    ADD COLUMN IF NOT EXISTS lease_until timestamptz NULL,
    ADD COLUMN IF NOT EXISTS attempts integer NOT NULL DEFAULT 0;

COMMIT;
