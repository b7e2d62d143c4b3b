-- Lesson 5: a task that fails is tried again later, and not for ever.
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
    ADD COLUMN IF NOT EXISTS max_attempts integer NOT NULL DEFAULT 3 CHECK (max_attempts > 0),
    ADD COLUMN IF NOT EXISTS retry_at timestamptz NULL,  -- a pending task is not claimed before this time
    ADD COLUMN IF NOT EXISTS last_error text NULL;

-- One more status: failed, for a task that has used up its attempts (a dead letter).
ALTER TABLE backend_training.tasks
    DROP CONSTRAINT IF EXISTS tasks_status_is_known,
    ADD CONSTRAINT tasks_status_is_known CHECK (status IN ('pending', 'processing', 'completed', 'failed'));

COMMIT;
