-- Lesson 4: what a live system needs besides 01_migrate.sql. Rows that were processing before the migration
-- have no lease, and no claim would ever find them.
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

-- Time for a worker of the old version to finish what it holds.
UPDATE backend_training.tasks
SET lease_until = clock_timestamp() + interval '5 minutes'
WHERE status = 'processing' AND lease_until IS NULL;

-- From here on no such row can be written. NOT VALID: the rows that exist are not read yet.
DO $constraint$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_constraint WHERE conname = 'processing_has_a_lease') THEN
        ALTER TABLE backend_training.tasks
            ADD CONSTRAINT processing_has_a_lease CHECK (status <> 'processing' OR lease_until IS NOT NULL) NOT VALID;
    END IF;
END
$constraint$;

COMMIT;

-- A transaction of its own: this reads all rows, under a lock that lets others go on writing.
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

ALTER TABLE backend_training.tasks VALIDATE CONSTRAINT processing_has_a_lease;

COMMIT;
