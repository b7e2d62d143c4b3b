-- Lesson 5's rows afresh: tasks 42, 43 and 44, all pending, no attempt made; and an empty ledger. The columns that
-- 01_migrate.sql adds get their defaults, so this also runs before it.

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

INSERT INTO backend_training.tasks (id, type, status, attempts, lease_until) VALUES
    (42, 'generate_report', 'pending', 0, NULL),
    (43, 'generate_report', 'pending', 0, NULL),
    (44, 'generate_report', 'pending', 0, NULL);

COMMIT;
