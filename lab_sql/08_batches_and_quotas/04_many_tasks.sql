-- Lesson 8: ten thousand tasks for the measurement of throughput, a third of each priority, all pending; ids from 1.
-- And an empty ledger.

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
ALTER TABLE backend_training.tasks DISABLE TRIGGER tasks_are_noted;  -- ten thousand inserts are no news

INSERT INTO backend_training.tasks (id, type, priority, created_at)
SELECT number,
       'generate_report',
       (ARRAY['HIGH', 'MEDIUM', 'LOW'])[1 + mod(number, 3)]::backend_training.priority,
       now() - interval '1 day' + number * interval '1 second'
FROM generate_series(1, 10000) AS number;

ALTER TABLE backend_training.tasks ENABLE TRIGGER tasks_are_noted;

ANALYZE backend_training.tasks;

COMMIT;
