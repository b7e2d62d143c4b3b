-- The lab's base: one table of background tasks, and a ledger that notes each change of it.
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

CREATE SCHEMA IF NOT EXISTS backend_training;

CREATE TABLE IF NOT EXISTS backend_training.tasks (
    id     bigint PRIMARY KEY,
    type   text   NOT NULL,
    status text   NOT NULL DEFAULT 'pending',
    CONSTRAINT tasks_status_is_known CHECK (status IN ('pending', 'processing', 'completed'))
);

-- The ledger. One row for each change of a task (written by the trigger below), and one for each
-- thing that only a process knows: that it started, that its work was done, that it was refused.
CREATE TABLE IF NOT EXISTS backend_training.task_events (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor       text        NOT NULL DEFAULT current_setting('application_name'),  -- a worker calls itself worker:A
    event       text        NOT NULL,  -- insert, update, delete: a change of the row; else what the process did
    task_id     bigint,                -- no foreign key: the ledger outlives the task
    old_status  text,
    new_status  text,
    attempt     integer,
    lease_until timestamptz,
    detail      text
);

-- The trigger reads the row as JSON, so that it serves before the columns of later lessons exist.
CREATE OR REPLACE FUNCTION backend_training.note_task_change() RETURNS trigger
LANGUAGE plpgsql AS $note$
DECLARE
    before jsonb := to_jsonb(OLD);
    after  jsonb := to_jsonb(NEW);
BEGIN
    INSERT INTO backend_training.task_events (event, task_id, old_status, new_status, attempt, lease_until)
    VALUES (
        lower(TG_OP),
        coalesce(after ->> 'id', before ->> 'id')::bigint,
        before ->> 'status',
        after ->> 'status',
        coalesce(after ->> 'attempts', before ->> 'attempts')::integer,
        (after ->> 'lease_until')::timestamptz
    );
    RETURN NULL;  -- the result of an AFTER trigger is not used
END
$note$;

CREATE OR REPLACE TRIGGER tasks_are_noted
    AFTER INSERT OR UPDATE OR DELETE ON backend_training.tasks
    FOR EACH ROW EXECUTE FUNCTION backend_training.note_task_change();

COMMIT;
