-- Lesson 7: fifty thousand HIGH tasks that came and were completed, and whose old row versions were not cleaned up yet.
-- Their ids begin at 2,000,001. They are older than all other tasks, so they stand at the beginning of the index.
-- 02_reset.sql takes it all back. Running it twice changes nothing.

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

-- Autovacuum would clean up in a minute or so, and the experiment would be over.
ALTER TABLE backend_training.tasks SET (autovacuum_enabled = false);
ALTER TABLE backend_training.tasks DISABLE TRIGGER tasks_are_noted;

INSERT INTO backend_training.tasks (id, type, priority, created_at)
SELECT 2000000 + number, 'generate_report', 'HIGH', now() - interval '1 hour' - number * interval '1 second'
FROM generate_series(1, 50000) AS number
ON CONFLICT (id) DO NOTHING;

-- An UPDATE writes a new version of the row. The old one, pending, stays in the table and in the index.
UPDATE backend_training.tasks SET status = 'completed', attempts = 1
WHERE id BETWEEN 2000001 AND 2050000 AND status = 'pending';

ALTER TABLE backend_training.tasks ENABLE TRIGGER tasks_are_noted;

COMMIT;
