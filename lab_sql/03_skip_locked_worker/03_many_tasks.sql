-- Lesson 3: a second table of tasks. 50 tasks, all pending.
-- Running it again makes it afresh.

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

CREATE TABLE IF NOT EXISTS backend_training.many_tasks (
    id     bigint PRIMARY KEY,
    type   text   NOT NULL,
    status text   NOT NULL DEFAULT 'pending'
) WITH (autovacuum_enabled = false);  -- the statistics stay as they are, however long you look

TRUNCATE backend_training.many_tasks;

-- The statistics are taken while the queue holds one task.
INSERT INTO backend_training.many_tasks (id, type) VALUES (1001, 'generate_report');
ANALYZE backend_training.many_tasks;

-- Then many come at once.
INSERT INTO backend_training.many_tasks (id, type)
SELECT id, 'generate_report' FROM generate_series(1002, 1050) AS id;

COMMIT;
