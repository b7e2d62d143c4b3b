-- Lesson 9's rows afresh: tasks 42, 43 and 44, all pending. The least urgent one is the oldest. And an empty ledger.

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

INSERT INTO backend_training.tasks
    (id, type, status, attempts, lease_until, max_attempts, retry_at, last_error, priority, created_at, slot, slot_attempt)
VALUES
    (42, 'generate_report', 'pending', 0, NULL, 3, NULL, NULL, 'LOW',    now() - interval '3 minutes', NULL, NULL),
    (43, 'generate_report', 'pending', 0, NULL, 3, NULL, NULL, 'MEDIUM', now() - interval '2 minutes', NULL, NULL),
    (44, 'generate_report', 'pending', 0, NULL, 3, NULL, NULL, 'HIGH',   now() - interval '1 minute',  NULL, NULL);

COMMIT;
