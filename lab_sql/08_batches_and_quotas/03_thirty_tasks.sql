-- Lesson 8: thirty tasks, ten of each priority, all pending, one created each second. And an empty ledger.
-- HIGH are 101 to 110, MEDIUM 201 to 210, LOW 301 to 310; the LOW ones are the oldest.

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

INSERT INTO backend_training.tasks (id, type, priority, created_at)
SELECT first_id + number,
       'generate_report',
       priority::backend_training.priority,
       now() - seconds_ago * interval '1 second' + number * interval '1 second'
FROM (VALUES ('HIGH', 100, 10), ('MEDIUM', 200, 20), ('LOW', 300, 30)) AS kind (priority, first_id, seconds_ago),
     generate_series(1, 10) AS number;

TRUNCATE backend_training.task_events;  -- thirty inserts are no news

COMMIT;
