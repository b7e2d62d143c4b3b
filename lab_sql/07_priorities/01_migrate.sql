-- Lesson 7: a priority and a time of creation for each task, and the index that serves the claim.
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

-- An enum sorts in the order in which its values are named here: HIGH comes first.
DO $type$
BEGIN
    IF to_regtype('backend_training.priority') IS NULL THEN
        CREATE TYPE backend_training.priority AS ENUM ('HIGH', 'MEDIUM', 'LOW');
    END IF;
END
$type$;

-- Nobody knows when the tasks that exist were created. now() stands still, so they all get the same moment, and are
-- claimed in the order of their ids, as before. A default that stands still is also noted once for the whole table:
-- no row is written anew.
ALTER TABLE backend_training.tasks
    ADD COLUMN IF NOT EXISTS priority backend_training.priority NOT NULL DEFAULT 'MEDIUM',
    ADD COLUMN IF NOT EXISTS created_at timestamptz NOT NULL DEFAULT now();

-- New tasks get the moment of their own INSERT, however long its transaction is.
ALTER TABLE backend_training.tasks
    ALTER COLUMN created_at SET DEFAULT clock_timestamp();

-- The order of the claim. Tasks that are completed or failed are not in it, so it grows with the longest that the queue
-- has been, and not with the history.
CREATE INDEX IF NOT EXISTS tasks_in_claim_order ON backend_training.tasks (priority, created_at, id)
    WHERE status IN ('pending', 'processing');

COMMIT;
