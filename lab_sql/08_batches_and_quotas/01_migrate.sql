-- Lesson 8: an index that finds what a batch must give up, and numbered slots, which bound the work in progress.
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

-- The tasks in their last attempt: few. A batch looks here for those whose worker did not come back.
CREATE INDEX IF NOT EXISTS tasks_without_attempts ON backend_training.tasks (id)
    WHERE status IN ('pending', 'processing') AND attempts >= max_attempts;

-- The slot that an attempt has taken. A later attempt that has taken none leaves the old number behind, where it means
-- nothing: a slot is in use where slot_attempt = attempts.
ALTER TABLE backend_training.tasks
    ADD COLUMN IF NOT EXISTS slot integer NULL CHECK (slot > 0),
    ADD COLUMN IF NOT EXISTS slot_attempt integer NULL;

-- One task a slot. This index is what holds the bound: it also sees what other sessions have not committed yet.
CREATE UNIQUE INDEX IF NOT EXISTS one_task_a_slot ON backend_training.tasks (priority, slot)
    WHERE status = 'processing' AND slot_attempt = attempts;

COMMIT;
