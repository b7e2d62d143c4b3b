-- Lesson 1's rows for the race of processes: tasks 1 to 100, all pending; and an empty ledger.

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

DELETE FROM backend_training.tasks;
DELETE FROM backend_training.task_events;

INSERT INTO backend_training.tasks (id, type, status)
SELECT number, 'generate_report', 'pending' FROM generate_series(1, 100) AS number;

DELETE FROM backend_training.task_events;  -- a hundred inserts are no news

COMMIT;
