-- Lesson 7: the table without the index of the claim, to see what it is good for. 01_migrate.sql brings it back.
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

DROP INDEX IF EXISTS backend_training.tasks_in_claim_order;

COMMIT;
