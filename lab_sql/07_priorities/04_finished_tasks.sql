-- Lesson 7: a hundred thousand finished tasks, beside the rows that are there, as in a queue that has run for a while.
-- Their ids begin at 1,000,001. Running it twice changes nothing.

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

ALTER TABLE backend_training.tasks DISABLE TRIGGER tasks_are_noted;  -- old tasks are no news

INSERT INTO backend_training.tasks (id, type, status, attempts, priority, created_at)
SELECT 1000000 + number,
       'generate_report',
       'completed',
       1,
       (ARRAY['HIGH', 'MEDIUM', 'LOW'])[1 + mod(number, 3)]::backend_training.priority,
       now() - interval '1 day' - number * interval '1 second'
FROM generate_series(1, 100000) AS number
ON CONFLICT (id) DO NOTHING;

ALTER TABLE backend_training.tasks ENABLE TRIGGER tasks_are_noted;

ANALYZE backend_training.tasks;

COMMIT;
