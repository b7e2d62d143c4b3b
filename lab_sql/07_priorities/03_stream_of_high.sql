-- Lesson 7: a minute in which a HIGH task arrived each second. Task 42 is LOW, 43 is MEDIUM, and both are as old as the
-- minute; tasks 101 to 160 are HIGH, and 101 came one second later. Nothing has been claimed. And an empty ledger.

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

TRUNCATE backend_training.tasks, backend_training.task_events;

INSERT INTO backend_training.tasks (id, type, priority, created_at) VALUES
    (42, 'generate_report', 'LOW',    now() - interval '60 seconds'),
    (43, 'generate_report', 'MEDIUM', now() - interval '60 seconds');

INSERT INTO backend_training.tasks (id, type, priority, created_at)
SELECT 100 + second, 'generate_report', 'HIGH', now() - interval '60 seconds' + second * interval '1 second'
FROM generate_series(1, 60) AS second;

TRUNCATE backend_training.task_events;  -- their arrival is no news

COMMIT;
